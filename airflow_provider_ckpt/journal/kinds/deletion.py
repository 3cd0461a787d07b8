"""The deletion of a job's files, which the job's journal records for ever."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.job import JobProgress
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Instant


@dataclass
class Deletion(JobProgress):
    deletion: DeletionBegun | None = field(default=None, metadata=OMIT_EMPTY)
    """The begin of the job's deletion; None if there was none. No driver resumes the job after it. When the deletion is
    complete, the job's status is DELETED."""


@dataclass(frozen=True)
class DeletionBegun(JournalEvent):
    """The commit point of a deletion. Nothing is deleted before it, and no driver resumes the job after it.

    ``was`` is the job's status before the deletion; None if the job had no status.
    """

    was: JobStatus | None
    at: Instant
    attempts: tuple[str, ...] = ()
    """Names of all attempts that ever opened a log of the job. Staged output of an attempt that is not in this list
    belongs to another job. No other record names the attempts when the logs are deleted."""

    def apply(self, state: Deletion) -> None:
        state.deletion = self
        state.status, state.cause = JobStatus.DELETING, None


_KEPT_FIELDS = (
    *("job_id", "epoch", "attempt", "last_triggered", "last_completed", "completed_count", "aborted_count"),
    *("last_released", "releases", "deletion", "damage", "position"),
)
"""Fields of the state that remain after a deletion: the identity of the job and its progress, but not its plan.

The last 100 ``releases`` remain, because ``CheckpointReleaseTrigger`` polls them and the job may be deleted right after
its end.
"""


@dataclass(frozen=True)
class JobDeleted(JournalEvent):
    """All files of the job under its root are deleted except the journal. The journal is truncated next, to the claims
    and a snapshot of the remaining state."""

    at: Instant

    def apply(self, state: Deletion) -> None:
        remaining = type(state)(**{name: getattr(state, name) for name in _KEPT_FIELDS})
        if remaining.deletion is not None:
            remaining.deletion = replace(remaining.deletion, attempts=())
        remaining.status = JobStatus.DELETED
        state.__dict__.update(remaining.__dict__)
