"""Errors of this package, under one root.

An error is built from data, not from a sentence. Its data is in :attr:`CkptError.data`, and its message is made from
:attr:`CkptError.template`. An error survives pickling, because Spark and Airflow pickle exceptions. The message names
the problem, the value, and the next step.

Two branches answer the only question of a caller:

* :class:`TransientError`: another try may help (Airflow should retry);
* :class:`TerminalError`: another try gives the same answer (Airflow should fail the task).
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow_provider_ckpt.printable import printable


class CkptError(Exception):
    """Root of all errors that this package raises. ``str(error)`` contains no secret and no control character."""

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
    """An error after which another try may help."""

    retryable = True


class TerminalError(CkptError):
    """An error that another try would repeat."""


class OvertakenError(TerminalError):
    """The loss of the job to a later driver. This driver must stop at once, and write and release nothing (exit code
    4).
    """


class InvalidInputError(TerminalError):
    """Invalid input of the user, refused before anything was written (``ckpt`` exits with 2)."""


def tells_what_to_do(error: BaseException) -> bool:
    """Return True if an error of a user's function is this package's own, which itself shows whether to retry.

    An OvertakenError is no such error, because it is about another job, not about the driver that called the function.
    """
    return isinstance(error, CkptError) and not isinstance(error, OvertakenError)


def kind_and_text(error: BaseException, text: str | None = None) -> str:
    """Return the class and the text of an error: ``ValueError: no such thing``; only the class if the text is empty.

    Args:
        error: what was raised.
        text: stands for the error's own text.
    """
    shown = str(error) if text is None else text
    return f"{type(error).__name__}: {shown}" if shown.strip() else type(error).__name__
