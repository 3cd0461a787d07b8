"""The end of a job under its root: what it had is deleted, and what is left says so, for ever."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.job import JobProgress
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Instant


@dataclass
class Deletion(JobProgress):
    deletion: DeletionBegun | None = field(default=None, metadata=LATER)
    """It has begun: no driver takes the job, from here on. Its status says whether it is complete."""


@dataclass(frozen=True)
class DeletionBegun(JournalEvent):
    """The commit point of a deletion: nothing is deleted before it, and nobody goes on with the job behind it. ``was``:
    the job's status before, None if it had none."""

    was: JobStatus | None
    at: Instant
    attempts: tuple[str, ...] = ()
    """Those that have ever opened a log of the job, by name: what others have staged in the places of its sinks is
    another job's. Nothing tells them any more when the logs are deleted."""

    def apply(self, state: Deletion) -> None:
        state.deletion = self
        state.status, state.cause = JobStatus.DELETING, None
