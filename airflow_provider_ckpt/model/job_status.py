"""The status of a job: the one vocabulary of the journal, of the command line and of Airflow's side."""

from __future__ import annotations

from enum import Enum
from typing import Literal


class JobStatus(str, Enum):
    """A status is its own text, in JSON, in messages and compared with one. Each is alive, resumable or terminal, and
    never two of these."""

    CREATED = "CREATED"
    """A driver has claimed the job; not every subtask runs yet."""
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """The run failed. Whoever runs the job again (a retry, a person) goes on."""
    STOPPED = "STOPPED"
    """The run ended with a savepoint (at the end of its data: a checkpoint of all) that is released, but for what gates
    hold. Whoever runs the job again goes on."""
    FINISHED = "FINISHED"
    """Every source has ended, and everything is released. Running the job again has nothing to do."""
    FAILED = "FAILED"
    """Another run would fail the same way. One that is told that the cause was mended (``resume_failed``) goes on."""
    DELETING = "DELETING"
    """What the job had is being deleted, or that was interrupted. Nobody can run it; who deletes it again goes on."""
    DELETED = "DELETED"
    """What the job had is gone. Nobody can run a job of this id under the root any more."""

    __str__ = str.__str__  # in an f-string, too: Python 3.12 and 3.11 differ about enums there

    @property
    def is_alive(self) -> bool:
        """A driver has the job, as far as the journal tells: one that was killed leaves such a status behind."""
        return self in (JobStatus.CREATED, JobStatus.RUNNING)

    @property
    def is_resumable(self) -> bool:
        """No driver has the job, and the next run goes on from its last completed checkpoint."""
        return self in (JobStatus.RESTARTING, JobStatus.STOPPED)

    @property
    def is_terminal(self) -> bool:
        """Flink's *globally terminal*: nobody goes on with the job by himself."""
        return self in (JobStatus.FINISHED, JobStatus.FAILED) or self.is_deleted

    @property
    def is_deleted(self) -> bool:
        """From the moment on from which no driver takes the job."""
        return self in (JobStatus.DELETING, JobStatus.DELETED)

    @property
    def has_ended(self) -> bool:
        """Flink's *terminal*, locally or globally: no further run is to be expected. STOPPED is locally terminal, as
        Flink's SUSPENDED: this run is over, another one may go on. RESTARTING is neither, as in Flink."""
        return self.is_terminal or self is JobStatus.STOPPED

    @property
    def ended_well(self) -> bool:
        """As it was meant to: the driver exits with 0, the Airflow task succeeds."""
        return self in (JobStatus.FINISHED, JobStatus.STOPPED)


RunEnd = Literal[JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED, JobStatus.RESTARTING]
"""How a run ends: every status that is not alive."""
