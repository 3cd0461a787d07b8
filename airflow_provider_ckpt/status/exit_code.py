"""The exit codes of a driver and of ``ckpt``. Driver processes set them, and supervisors read them."""

from __future__ import annotations

from enum import IntEnum

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.storage.errors import ForeignRootError, NoRootError


class ExitCode(IntEnum):
    """The exit code of a driver. ``ckpt`` itself exits with one of the first three (:attr:`coarse`), or with 130."""

    FINISHED = 0
    """The job is finished or stopped. For a command that runs no job: the answer was printed."""
    FAILED = 1
    """A retry may help."""
    REFUSED = 2
    """The input was refused, and nothing was written."""
    TERMINAL = 3
    """A retry would fail again."""
    FENCED = 4
    """A later driver owns the job."""
    INTERRUPTED = 130
    """The code that a shell uses for SIGINT."""

    @classmethod
    def of_run(cls, status: JobStatus) -> ExitCode:
        """Return the exit code of a run after which the job has this status."""
        if status.ended_well:
            return cls.FINISHED
        return cls.TERMINAL if status.is_terminal else cls.FAILED

    @classmethod
    def of_error(cls, error: Exception) -> ExitCode:
        """Return the exit code of a run that an error ended. An error from outside this package counts as temporary."""
        if isinstance(error, OvertakenError):
            return cls.FENCED
        if isinstance(error, _REFUSALS):
            return cls.REFUSED
        return cls.TERMINAL if isinstance(error, CkptError) and not error.retryable else cls.FAILED

    @property
    def line_kind(self) -> LineKind:
        """The kind of the last status line of a failed run with this code."""
        return _LINE_KINDS.get(self, LineKind.FAILED)

    @property
    def coarse(self) -> ExitCode:
        """The code with which ``ckpt run`` exits. The finer codes are for the Airflow operator."""
        return self if self in (ExitCode.FINISHED, ExitCode.REFUSED) else ExitCode.FAILED


_REFUSALS = (InvalidInputError, ForeignRootError, NoRootError)
_LINE_KINDS = {ExitCode.REFUSED: LineKind.REFUSED, ExitCode.FENCED: LineKind.FENCED}
_FOR_GOOD = {
    ExitCode.REFUSED: (LineKind.REFUSED, LineKind.FAILED),
    ExitCode.TERMINAL: (LineKind.FAILED,),
    ExitCode.FENCED: (LineKind.FENCED,),
}


def is_for_good(code: int | None, line_kind: str) -> bool:
    """Return True if a retry of the driver would fail in the same way.

    The exit code and the last status line must agree. A JVM without memory also exits with 3, but a retry may help.
    """
    return any(code == exit_code and line_kind in kinds for exit_code, kinds in _FOR_GOOD.items())
