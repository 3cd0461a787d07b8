"""Which subtasks no worker runs, and when to tell: who started the JobMaster may have forgotten one, or mistyped it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId

FIRST_AFTER = 15.0
"""Seconds from when a subtask has no worker to when that is told: one that is started now takes a few."""
AGAIN_AFTER = 120.0


class Vacancies:
    """Of the ``subtasks`` that are not finished: nobody runs any of them to begin with. ``tell``: called with those
    that have had no worker for a while, in the thread that calls :meth:`look`; the rest may come from any thread."""

    def __init__(self, subtasks: Iterable[SubtaskId], tell: Callable[[list[SubtaskId]], None], now: float) -> None:
        self._since = dict.fromkeys(subtasks, now)
        self._runs: dict[SubtaskId, AttemptId] = {}
        self._tell, self._told_at = tell, 0.0
        self._told: set[SubtaskId] = set()
        self._lock = threading.Lock()

    def taken(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        with self._lock:
            if subtask in self._runs and attempt < self._runs[subtask]:
                return  # heard of late, or once more
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
        """Whoever ran ``attempt`` does no longer; another one may have begun the next one."""
        with self._lock:
            if self._runs.get(subtask) == attempt:
                self._since.setdefault(subtask, now)

    def look(self, now: float) -> None:
        """Tell what was not told yet, or not for long."""
        with self._lock:
            waiting = {subtask for subtask, since in self._since.items() if now - since >= FIRST_AFTER}
        news = waiting - self._told
        self._told &= waiting
        if waiting and (news or now - self._told_at >= AGAIN_AFTER):
            self._told, self._told_at = set(waiting), now
            self._tell(sorted(waiting))


def told_of_vacant(subtasks: Iterable[SubtaskId], timeout: float, *, is_batch: bool, worker: str) -> str:
    """``timeout``: seconds, the checkpoint timeout; ``worker``: the command that runs the subtasks. In batch mode
    another subtask that comes to its end makes room."""
    limit = f"{timeout:g} s{' in which no other subtask runs' if is_batch else ''}"
    return (
        f"no worker runs {', '.join(subtasks)} (its task in Airflow, or `{worker}`, is to): the run ends if none "
        f"has begun after {limit}, the checkpoint timeout"
    )
