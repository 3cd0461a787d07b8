"""Every error of this package, under one root.

An error is built from data, not from a sentence: the data is kept in :attr:`CkptError.data`, the
message is made from :attr:`CkptError.template`, and an error survives pickling (Spark and Airflow
both pickle exceptions). The message says what is wrong, with which value, and what to do next.

Two branches answer the only question a caller has to ask:

* :class:`TransientError`: trying again may help (Airflow should retry);
* :class:`TerminalError`: trying again gives the same answer (Airflow should fail the task).
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow_provider_ckpt.printable import printable


class CkptError(Exception):
    """Root of every error this package raises. ``str(error)`` never holds a secret, and no control character."""

    template: ClassVar[str] = "{message}"
    retryable: ClassVar[bool] = False

    def __init__(self, **data: Any) -> None:
        self.data = data
        super().__init__(printable(self.template.format(**data)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.data))


def _rebuild(kind: type[CkptError], data: dict[str, Any]) -> CkptError:
    return kind(**data)


class TransientError(CkptError):
    """Trying again may help."""

    retryable = True


class TerminalError(CkptError):
    """Trying again gives the same answer."""


class OvertakenError(TerminalError):
    """A later driver has taken over: stop at once, write nothing, release nothing (a driver exits with 4)."""


class InvalidInputError(TerminalError):
    """What the user gave was refused, before anything was written (``ckpt`` exits with 2)."""


def tells_what_to_do(error: BaseException) -> bool:
    """Of what a user's function failed with: it is ours, and says by itself whether trying again may help. Whoever was
    overtaken in there was so in another job: that is no word about the driver that has called it."""
    return isinstance(error, CkptError) and not isinstance(error, OvertakenError)


def kind_and_text(error: BaseException, text: str | None = None) -> str:
    """Return the class and the text of an error: ``ValueError: no such thing``; only the class if the text is empty.

    Args:
        error: what was raised.
        text: stands for the error's own text.
    """
    shown = str(error) if text is None else text
    return f"{type(error).__name__}: {shown}" if shown.strip() else type(error).__name__
