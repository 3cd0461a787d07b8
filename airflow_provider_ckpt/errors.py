"""Errors of this package, under one root.

An error is built from data (:attr:`CkptError.data`) and makes its message from :attr:`CkptError.template`. The message
names the problem, the value, and the next step. A class with one message has the template. A class with several
messages is a family, and ``raise`` gives the template as the first argument. An error survives pickling, because Spark
and Airflow pickle exceptions.

Two branches show a caller whether a retry makes sense:

* :class:`TransientError`: another try may help (Airflow should retry);
* :class:`TerminalError`: another try gives the same answer (Airflow should fail the task).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from airflow_provider_ckpt.printable import printable


class CkptError(Exception):
    """Root of all errors that this package raises.

    ``str(error)`` contains no control character. The code that raises an error must redact secrets in ``data``.
    """

    template: str = "{message}"
    retryable: ClassVar[bool] = False

    def __init__(self, template: str | None = None, /, **data: Any) -> None:
        if template is not None:
            self.template = template
        self.data = data
        super().__init__(printable(self.template.format(**data)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.template, self.data))


def _rebuild(kind: type[CkptError], template: str, data: dict[str, Any]) -> CkptError:
    return kind(template, **data)


class TransientError(CkptError):
    """An error after which another try may help."""

    retryable = True


class TerminalError(CkptError):
    """An error that another try would repeat."""


class OvertakenError(TerminalError):
    """A later driver owns the job. This driver must stop at once, and must not write or release (exit code 4)."""


class InvalidInputError(TerminalError):
    """Invalid input of the user, refused before anything was written (``ckpt`` exits with 2)."""


class RequestFailure(str, Enum):
    """The reason why a request to a job, or a wait for it, failed."""

    NOT_RUNNING = "no driver runs the job"
    STILL_RUNNING = "the job still runs"
    NOT_ENDED = "the job did not end in time"
    OVERTAKEN = "another driver took the job over before the answer"
    TIMED_OUT = "the awaited condition was not met in time"
    TIMERS_WAIT = "a drain would discard state that waits for timers"
    NOT_RESCALABLE = "the source cannot be rescaled like this"
    NOT_RESCALED = "the source was not rescaled in time"
    NOT_RECONFIGURABLE = "the job cannot be changed like this"
    NOT_RECONFIGURED = "the change was not applied in time"
    RECONFIGURATION_FAILED = "the driver could not apply the change, and the job continues unchanged"
    NOT_UPGRADABLE = "the job cannot continue as this version"
    NOT_UPGRADED = "the job did not continue as this version in time"
    NOT_FOR_NEXT_RUN = "the next run of the job cannot have this change"


class RequestFailedError(CkptError):
    """A failed request to a job, or a failed wait for a job. ``reason`` is why it failed.

    Each such error is an InvalidInputError or a TransientError, too.
    """

    reason: RequestFailure

    def __init__(self, template: str | None = None, /, **data: Any) -> None:
        super().__init__(template, **data)
        if "reason" in data:
            self.reason = data["reason"]


class RequestRefusedError(RequestFailedError, InvalidInputError):
    """A request that was not sent, because the job cannot carry it out."""


class RequestUnansweredError(RequestFailedError, TransientError):
    """A request that was sent, but was not answered or not carried out."""


class DeletionRefusal(str, Enum):
    """The reason why a job was not deleted, or not completely."""

    NOT_OVER = "the job is not over"
    UNRELEASED_OUTPUT = "completed output of the job is not released"
    PERSISTED_RESULTS = "the job keeps results for other jobs"
    STAGED_OUTPUT_LEFT = "staged output could not be deleted"


class DeletionRefusedError(CkptError):
    """A refused or incomplete deletion of a job, with the ``reason``.

    After STAGED_OUTPUT_LEFT the deletion is incomplete, and the user must repeat it. Each such error is an
    InvalidInputError or a TransientError, too.
    """

    @property
    def reason(self) -> DeletionRefusal:
        return DeletionRefusal(self.data["reason"])


def is_classified(error: BaseException) -> bool:
    """Return True if an error of a user's function is a CkptError, whose class shows whether a retry helps.

    Return False for an OvertakenError, because a function of the user can only raise it about another job.
    """
    return isinstance(error, CkptError) and not isinstance(error, OvertakenError)


def kind_and_text(error: BaseException, text: str | None = None) -> str:
    """Return the class and the text of an error: ``ValueError: no such thing``. An empty text is omitted.

    ``text`` replaces the error's own text.
    """
    message = str(error) if text is None else text
    return f"{type(error).__name__}: {message}" if message.strip() else type(error).__name__
