"""What stays of a job that was deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.limits import Instant

_STAYS = (
    *("job_id", "epoch", "attempt", "last_triggered", "last_completed", "completed_count", "aborted_count"),
    *("last_released", "releases", "deletion", "damage", "position"),
)
"""Of the state: who the job was and how far it had come. Not what it ran. ``releases``, the last 100: who tells of each
(``CheckpointReleaseTrigger``) looks now and then, and the job may be deleted right behind its end."""


@dataclass(frozen=True)
class JobDeleted(JournalEvent):
    """Everything that the job had under its root is gone, but the journal: its entries go next, to a snapshot of what
    is left of the state, and the claims."""

    at: Instant

    def apply(self, state: JobState) -> None:
        left = JobState(**{name: getattr(state, name) for name in _STAYS})
        if left.deletion is not None:
            left.deletion = replace(left.deletion, attempts=())
        left.status = JobStatus.DELETED
        state.__dict__.update(left.__dict__)
