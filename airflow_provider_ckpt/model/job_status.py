"""The status of a job, shared by the journal, the command line and Airflow."""

from __future__ import annotations

from enum import Enum
from typing import Literal


class JobStatus(str, Enum):
    """A status, which is equal to its text. Each status is exactly one of alive, resumable and terminal."""

    CREATED = "CREATED"
    """A driver has claimed the job, and is starting its subtasks."""
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """The run failed. The next run, by a retry or a user, resumes the job."""
    STOPPED = "STOPPED"
    """The run ended with a released savepoint, and the next run resumes the job. Closed gates may still hold output.

    If all subtasks are at their end of data, their last checkpoint takes the place of the savepoint.
    """
    FINISHED = "FINISHED"
    """Every source has ended, and everything is released. Another run has nothing to do."""
    FAILED = "FAILED"
    """Another run would fail the same way. A run with ``resume_failed`` resumes the job, if the cause is fixed."""
    DELETING = "DELETING"
    """The deletion of the job's data has begun. No run is possible. A repeated deletion completes this deletion."""
    DELETED = "DELETED"
    """The job's data is deleted. No job with this id can run under the root again."""

    __str__ = str.__str__  # in an f-string, too, because Python 3.11 and 3.12 differ about enums there

    @property
    def is_alive(self) -> bool:
        """True if a driver has the job according to the journal. The status remains alive when a driver is killed."""
        return self in (JobStatus.CREATED, JobStatus.RUNNING)

    @property
    def is_resumable(self) -> bool:
        """True if no driver has the job, and the next run resumes it from its last completed checkpoint."""
        return self in (JobStatus.RESTARTING, JobStatus.STOPPED)

    @property
    def is_terminal(self) -> bool:
        """True if nothing resumes the job automatically. This is Flink's *globally terminal*."""
        return self in (JobStatus.FINISHED, JobStatus.FAILED) or self.is_deleted

    @property
    def is_deleted(self) -> bool:
        """True if the deletion has begun, after which no driver can claim the job."""
        return self in (JobStatus.DELETING, JobStatus.DELETED)

    @property
    def has_ended(self) -> bool:
        """True if no further run is expected. This is Flink's *terminal*, locally or globally.

        STOPPED is locally terminal, as Flink's SUSPENDED: another run may resume the job. RESTARTING is not terminal.
        """
        return self.is_terminal or self is JobStatus.STOPPED

    @property
    def ended_well(self) -> bool:
        """True if the run ended as intended: the driver exits with 0, and the Airflow task succeeds."""
        return self in (JobStatus.FINISHED, JobStatus.STOPPED)


RunEnd = Literal[JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED, JobStatus.RESTARTING]
"""A status with which a run can end."""


RuntimeMode = Literal["streaming", "batch"]
