"""What a row of Spark's raised with ``raise_error``, found again in what the driver is told."""

from __future__ import annotations

from collections.abc import Iterator


def says(error: BaseException | None, text: str) -> bool:
    return any(text in told for told in texts(error))


def texts(error: BaseException | None) -> Iterator[str]:
    """What Spark raises of a task is told by the stack of the JVM, or by a cause of PySpark's own."""
    while error is not None:
        yield f"{error} {getattr(error, '_stackTrace', '')}"
        error = error.__cause__ or getattr(error, "_cause", None)
