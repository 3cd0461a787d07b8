"""The remains of a job's state after its deletion."""

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
"""Fields of the state that stay: the identity of the job and its progress, but not its plan.

The last 100 ``releases`` stay, too, because ``CheckpointReleaseTrigger`` polls them and the job may be deleted right
after its end.
"""


@dataclass(frozen=True)
class JobDeleted(JournalEvent):
    """All files of the job under its root are deleted except the journal. The journal is truncated next, to the claims
    and a snapshot of the remaining state."""

    at: Instant

    def apply(self, state: JobState) -> None:
        left = JobState(**{name: getattr(state, name) for name in _STAYS})
        if left.deletion is not None:
            left.deletion = replace(left.deletion, attempts=())
        left.status = JobStatus.DELETED
        state.__dict__.update(left.__dict__)
