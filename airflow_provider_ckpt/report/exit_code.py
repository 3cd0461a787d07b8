"""How the process of a driver, or of ``ckpt``, ends: given by the one side, read by the other."""

from __future__ import annotations

from enum import IntEnum

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.report.status_line import LineKind
from airflow_provider_ckpt.storage.errors import ForeignRootError, NoRootError


class ExitCode(IntEnum):
    """Of a driver. ``ckpt`` has the first three (:attr:`coarse`), and 130 when it was interrupted."""

    FINISHED = 0
    """Finished or stopped. Of another command: the answer was printed."""
    FAILED = 1
    """Trying again may help."""
    REFUSED = 2
    """The input was refused, and nothing was written."""
    TERMINAL = 3
    """Trying again gives the same answer."""
    FENCED = 4
    """A later driver has the job."""
    INTERRUPTED = 130
    """As a shell has it for SIGINT."""

    @classmethod
    def of_run(cls, status: JobStatus) -> ExitCode:
        """Of a run that ended with this status of the job."""
        if status.ended_well:
            return cls.FINISHED
        return cls.TERMINAL if status.is_terminal else cls.FAILED

    @classmethod
    def of_error(cls, error: Exception) -> ExitCode:
        """Of a run that an error ended. An error that is not this package's may go away."""
        if isinstance(error, OvertakenError):
            return cls.FENCED
        if isinstance(error, _REFUSALS):
            return cls.REFUSED
        return cls.TERMINAL if isinstance(error, CkptError) and not error.retryable else cls.FAILED

    @property
    def told_as(self) -> LineKind:
        """The kind of the status line that goes with a run that did not end well."""
        return _TOLD.get(self, LineKind.FAILED)

    @property
    def coarse(self) -> ExitCode:
        """As ``ckpt run`` ends: the finer codes are for the Airflow operator."""
        return self if self in (ExitCode.FINISHED, ExitCode.REFUSED) else ExitCode.FAILED


_REFUSALS = (InvalidInputError, ForeignRootError, NoRootError)
_TOLD = {ExitCode.REFUSED: LineKind.REFUSED, ExitCode.FENCED: LineKind.FENCED}
_FOR_GOOD = {
    ExitCode.REFUSED: (LineKind.REFUSED, LineKind.FAILED),
    ExitCode.TERMINAL: (LineKind.FAILED,),
    ExitCode.FENCED: (LineKind.FENCED,),
}


def is_for_good(code: int | None, told: str) -> bool:
    """Whether another try of a driver would end the same way. ``code``: of its process; ``told``: the kind of its last
    status line. Both have to say so: a JVM that ends itself because it is out of memory exits with 3 as well, and that
    is worth another try."""
    return any(code == known and told in kinds for known, kinds in _FOR_GOOD.items())
