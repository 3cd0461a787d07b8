"""Subtasks without a worker, and the times to report them to the user, who may have forgotten to start a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId

FIRST_AFTER = 15.0
"""Seconds without a worker after which a subtask is reported. A worker needs a few seconds to start."""
AGAIN_AFTER = 120.0


class UnassignedSubtasks:
    """The unfinished subtasks and their workers. At first no subtask has a worker.

    Args:
        report: Called by :meth:`check`, in the caller's thread, with a list of subtasks without a worker. Any thread
            may call the other methods.
        now: Seconds of a clock that never decreases.
    """

    def __init__(self, subtasks: Iterable[SubtaskId], report: Callable[[list[SubtaskId]], None], now: float) -> None:
        self._since = dict.fromkeys(subtasks, now)
        self._attempts: dict[SubtaskId, AttemptId] = {}
        self._report, self._reported_at = report, 0.0
        self._reported: set[SubtaskId] = set()
        self._lock = threading.Lock()

    def assign(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        with self._lock:
            if subtask in self._attempts and attempt < self._attempts[subtask]:
                return  # a late or repeated report
            self._since.pop(subtask, None)
            self._attempts[subtask] = attempt

    def is_current(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        with self._lock:
            return self._attempts.get(subtask) == attempt

    @property
    def has_any(self) -> bool:
        with self._lock:
            return bool(self._since)

    def unassign(self, subtask: SubtaskId, attempt: AttemptId, now: float) -> None:
        """Record that ``attempt`` no longer has a worker. Ignored if a later attempt has begun in another worker."""
        with self._lock:
            if self._attempts.get(subtask) == attempt:
                self._since.setdefault(subtask, now)

    def check(self, now: float) -> None:
        """Report the subtasks that have had no worker for FIRST_AFTER seconds.

        They are reported if one of them was not in the last report, or if that report is AGAIN_AFTER seconds old.
        """
        with self._lock:
            waiting = {subtask for subtask, since in self._since.items() if now - since >= FIRST_AFTER}
        new = waiting - self._reported
        self._reported &= waiting
        if waiting and (new or now - self._reported_at >= AGAIN_AFTER):
            self._reported, self._reported_at = set(waiting), now
            self._report(sorted(waiting))


def vacancy_message(subtasks: Iterable[SubtaskId], timeout: float, *, is_batch: bool, worker: str) -> str:
    """Return a message about subtasks without a worker.

    Args:
        timeout: The checkpoint timeout in seconds.
        is_batch: True in batch mode, where a subtask may wait until another one ends.
        worker: The command that runs the subtasks.
    """
    limit = f"{timeout:g} s{' in which no other subtask runs' if is_batch else ''}"
    return (
        f"no worker runs {', '.join(subtasks)} (start its task in Airflow, or `{worker}`): the run ends if none "
        f"has begun after {limit}, the checkpoint timeout"
    )
