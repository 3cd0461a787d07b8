"""Whether the JobMaster that has taken over from this process lives: one that does not is followed."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.remote.correspondence import master_name
from airflow_provider_ckpt.remote.liveness import Liveness
from airflow_provider_ckpt.remote.outbox import Outbox, read_outbox
from airflow_provider_ckpt.storage.layout import deployment_path
from airflow_provider_ckpt.storage.storage import Storage


class Owner(Enum):
    """Whose a job is, for a JobMaster that was overtaken."""

    TWIN = "a twin, which gives signs of life"
    NOBODY = "a twin, which gives none any more"
    OTHER = "somebody else"
    OVER = "its deployment is over"


class MasterWatch:
    """``is_twin``: whether a claim of that name is of a JobMaster that this one may follow. ``lost_after``: seconds
    without a sign of life; ``interval``: about so many from one look to the next. ``clock``: seconds that never go
    back."""

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        is_twin: Callable[[str], bool],
        lost_after: float,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage, self._is_twin = storage, is_twin
        self._journal = Journal(storage, job_id)
        self._clock = clock
        self._liveness = Liveness(lost_after, 4 * interval)

    def look(self) -> tuple[Owner, JobState]:
        """Raises the storage's errors, and what the journal is damaged with."""
        state = self._journal.refresh()
        if not state.deployment:
            return Owner.OVER, state
        if not self._is_twin(state.attempt or ""):
            return Owner.OTHER, state
        outbox = read_master(self._storage, state)
        has_left = outbox is not None and outbox.left is not None
        self._liveness.see((state.epoch, 0 if outbox is None else outbox.beat), self._clock())
        return Owner.NOBODY if has_left or self._liveness.is_lost else Owner.TWIN, state


def read_master(storage: Storage, state: JobState) -> Outbox | None:
    """What the JobMaster that has the job says of itself; None if there was none in its deployment, or it has not said
    anything yet. A request to the storage; raises its errors."""
    if state.epoch == state.deployment:
        return None  # who has prepared the job is none
    return read_outbox(storage, f"{deployment_path(state.job_id, state.deployment)}/{master_name(state.epoch)}.json")
