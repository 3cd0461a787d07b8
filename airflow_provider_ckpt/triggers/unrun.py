"""Subtasks of a running job that nobody is going to run: no JobMaster would wait for them in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

_SURE = 3
"""Looks in a row that find a task green whose subtask has not finished: both are told, and not in one moment."""


class UnrunWatch:
    """``tasks``: key of a task in ``states`` -> what it runs; ``states``: of Airflow; ``journal``: the job's state.

    A task that failed for good runs its subtask no more. Nor does one that has succeeded: if the subtask has not
    finished, then the job began again without it, because somebody cleared other tasks of the group only.
    """

    def __init__(
        self,
        tasks: Mapping[str, str],
        states: Callable[[], Mapping[str, str | None]],
        journal: Callable[[], JobState],
    ) -> None:
        self._tasks, self._states, self._journal = tasks, states, journal
        self._green: dict[str, int] = {}

    def look(self) -> str | None:
        """Why the run is hopeless; None if it is not, as far as is known. Never raises."""
        found = {name: state for task, state in self._states().items() if (name := self._tasks.get(task))}
        lost = self._unfinished([name for name, state in found.items() if state in GIVEN_UP])
        if lost:
            told = ", ".join(f"{name} ({found[name]})" for name in sorted(lost))
            return f"Airflow runs the tasks of some subtasks no more: {told}"
        green = [name for name, state in found.items() if state == "success"]
        self._green = {name: self._green.get(name, 0) + 1 for name in self._unfinished(green)}
        sure = sorted(name for name, looks in self._green.items() if looks >= _SURE)
        if sure:
            return f"the tasks of {', '.join(sure)} have succeeded, and the job needs them again: clear the whole group"
        return None

    def _unfinished(self, names: list[str]) -> list[str]:
        if not names:
            return []
        try:
            state = self._journal()
        except CkptError:
            return []
        if state.status is not None and not state.status.is_alive:
            return []
        return [name for name in names if state.plan and not set(state.named(name)) <= state.finished]
