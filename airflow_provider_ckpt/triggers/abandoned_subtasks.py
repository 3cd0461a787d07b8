"""The watch for subtasks that the JobMaster awaits in vain, because no task will run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.triggers.group_task_states import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

_CONFIRMING_POLLS = 3
"""Polls in a row that must find a successful task with an unfinished subtask. One poll does not suffice, because
Airflow and the journal are not read at the same moment."""


class AbandonedSubtasks:
    """Check for tasks of a group that no longer run their subtasks, although the job needs them.

    A task that failed for good or succeeded no longer runs its subtask. A successful task has an unfinished subtask if
    the job restarted after a user cleared only other tasks of the group.

    Args:
        tasks: Key of a task in ``states`` -> the task's subtask or vertex.
        states: Returns key of a task -> Airflow's state.
        journal: Returns the job's state.
    """

    def __init__(
        self,
        tasks: Mapping[str, str],
        states: Callable[[], Mapping[str, str | None]],
        journal: Callable[[], JobState],
    ) -> None:
        self._tasks, self._states, self._journal = tasks, states, journal
        self._green: dict[str, int] = {}

    def check(self) -> str | None:
        """Return why the run cannot finish, or None if no reason is known. Never raises."""
        states = {name: state for task, state in self._states().items() if (name := self._tasks.get(task))}
        lost = self._unfinished([name for name, state in states.items() if state in GIVEN_UP])
        if lost:
            shown = ", ".join(f"{name} ({states[name]})" for name in sorted(lost))
            return f"Airflow no longer runs the tasks of some subtasks: {shown}"
        green = [name for name, state in states.items() if state == "success"]
        self._green = {name: self._green.get(name, 0) + 1 for name in self._unfinished(green)}
        sure = sorted(name for name, polls in self._green.items() if polls >= _CONFIRMING_POLLS)
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
        return [name for name in names if state.plan and not set(state.subtasks_of_process(name)) <= state.finished]
