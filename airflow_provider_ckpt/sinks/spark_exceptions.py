"""Search for the text of Spark's ``raise_error`` in the error that the driver gets."""

from __future__ import annotations

from collections.abc import Iterator


def has_text(error: BaseException | None, text: str) -> bool:
    return any(text in message for message in texts(error))


def texts(error: BaseException | None) -> Iterator[str]:
    """Yield the text of an error and of each of its causes, each with the JVM's stack trace if there is one."""
    while error is not None:
        yield f"{error} {getattr(error, '_stackTrace', '')}"
        error = error.__cause__ or getattr(error, "_cause", None)
