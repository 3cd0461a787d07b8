"""A check by a JobMaster that was overtaken, whether the JobMaster that took over is alive or can be replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.remote.heartbeat_monitor import HeartbeatMonitor
from airflow_provider_ckpt.remote.mailbox import Outbox, master_name, read_outbox
from airflow_provider_ckpt.storage.layout import deployment_path
from airflow_provider_ckpt.storage.storage import Storage


class Owner(Enum):
    """The owner of a job, from the point of view of a JobMaster that was overtaken.

    A twin is another JobMaster, which the overtaken JobMaster may replace after its death.
    """

    TWIN = "a twin that gives signs of life"
    NOBODY = "a twin without signs of life"
    OTHER = "another process"
    OVER = "its deployment is over"


class LeaderMonitor:
    """The liveness of the current JobMaster of a job.

    Args:
        is_twin: Called with the attempt's name in the last claim. Returns True if it belongs to a JobMaster that the
            caller may replace.
        lost_after: Seconds without a new beat after which the JobMaster counts as lost.
        interval: Approximate seconds between two polls.
        clock: Returns seconds that never decrease.
    """

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
        self._liveness = HeartbeatMonitor(lost_after, 4 * interval)

    def poll(self) -> tuple[Owner, JobState]:
        """Read the journal and the JobMaster's outbox, and return the job's owner and state.

        Raises the storage's errors, and the errors of a damaged journal.
        """
        state = self._journal.refresh()
        if not state.deployment:
            return Owner.OVER, state
        if not self._is_twin(state.attempt or ""):
            return Owner.OTHER, state
        outbox = read_master(self._storage, state)
        has_left = outbox is not None and outbox.left is not None
        self._liveness.observe((state.epoch, 0 if outbox is None else outbox.beat), self._clock())
        return Owner.NOBODY if has_left or self._liveness.is_lost else Owner.TWIN, state


def read_master(storage: Storage, state: JobState) -> Outbox | None:
    """Read the outbox of the job's current JobMaster, with one request. Return None without JobMaster or outbox.

    Raises the storage's errors.
    """
    if state.epoch == state.deployment:
        return None  # this epoch belongs to the planner that prepared the job, not to a JobMaster
    return read_outbox(storage, f"{deployment_path(state.job_id, state.deployment)}/{master_name(state.epoch)}.json")
