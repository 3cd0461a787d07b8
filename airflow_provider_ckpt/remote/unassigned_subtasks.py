"""Subtasks without a worker, and when to report them.

The user who started the JobMaster may have forgotten to start a worker, or may have mistyped its subtask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId

FIRST_AFTER = 15.0
"""Seconds without a worker after which a subtask is reported. A worker needs a few seconds to start."""
AGAIN_AFTER = 120.0


class UnassignedSubtasks:
    """The unfinished subtasks and their workers. At first no subtask has one.

    Args:
        subtasks: The unfinished subtasks.
        tell: Called by :meth:`look`, in its thread, with the subtasks that have had no worker for a while. All other
            methods may be called from any thread.
        now: Seconds of a clock that never goes back.
    """

    def __init__(self, subtasks: Iterable[SubtaskId], tell: Callable[[list[SubtaskId]], None], now: float) -> None:
        self._since = dict.fromkeys(subtasks, now)
        self._runs: dict[SubtaskId, AttemptId] = {}
        self._tell, self._told_at = tell, 0.0
        self._told: set[SubtaskId] = set()
        self._lock = threading.Lock()

    def taken(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        with self._lock:
            if subtask in self._runs and attempt < self._runs[subtask]:
                return  # a late or repeated report
            self._since.pop(subtask, None)
            self._runs[subtask] = attempt

    def is_current(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        with self._lock:
            return self._runs.get(subtask) == attempt

    @property
    def is_any(self) -> bool:
        with self._lock:
            return bool(self._since)

    def left(self, subtask: SubtaskId, attempt: AttemptId, now: float) -> None:
        """Record that the worker of ``attempt`` no longer runs it. A later attempt may already have begun elsewhere."""
        with self._lock:
            if self._runs.get(subtask) == attempt:
                self._since.setdefault(subtask, now)

    def look(self, now: float) -> None:
        """Report subtasks without a worker, if there are new ones or the last report is AGAIN_AFTER seconds old."""
        with self._lock:
            waiting = {subtask for subtask, since in self._since.items() if now - since >= FIRST_AFTER}
        new = waiting - self._told
        self._told &= waiting
        if waiting and (new or now - self._told_at >= AGAIN_AFTER):
            self._told, self._told_at = set(waiting), now
            self._tell(sorted(waiting))


def told_of_vacant(subtasks: Iterable[SubtaskId], timeout: float, *, is_batch: bool, worker: str) -> str:
    """Describe subtasks without a worker.

    Args:
        subtasks: The subtasks.
        timeout: The checkpoint timeout in seconds.
        is_batch: True in batch mode, where a subtask that ends makes room for another one.
        worker: The command that runs the subtasks.
    """
    limit = f"{timeout:g} s{' in which no other subtask runs' if is_batch else ''}"
    return (
        f"no worker runs {', '.join(subtasks)} (start its task in Airflow, or `{worker}`): the run ends if none "
        f"has begun after {limit}, the checkpoint timeout"
    )
