"""What a row of Spark's raised with ``raise_error``, found again in what the driver is told."""

from __future__ import annotations


def says(error: BaseException | None, text: str) -> bool:
    """What Spark raises of a task is told by the stack of the JVM, or by a cause of PySpark's own."""
    while error is not None:
        if text in f"{error} {getattr(error, '_stackTrace', '')}":
            return True
        error = error.__cause__ or getattr(error, "_cause", None)
    return False
