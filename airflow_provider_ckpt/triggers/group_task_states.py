"""Airflow's states of a trigger's own task and of the other tasks of its group.

Airflow calls ``on_kill`` after a user's kill, after a clear, and when another triggerer takes over the trigger
(apache/airflow#73454). The state of the trigger's own task distinguishes the three cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_ckpt.hooks.job_of_task import UNANSWERED

GIVEN_UP = ("failed", "upstream_failed", "skipped", "removed")
"""States of a task that did not succeed and that Airflow does not run again by itself."""
ASK_EVERY = 60.0
"""Seconds between two requests of a waiting task for the state of the JobMaster's task."""


@dataclass(frozen=True)
class Siblings:
    """The tasks of a group in one Dag run.

    Each method sends a request to Airflow's API server. If the server does not answer, the result is empty and the
    caller asks again later.
    """

    dag_id: str
    run_id: str
    group_id: str

    @classmethod
    def of(cls, ti: Any, group_id: str) -> Siblings:
        return cls(ti.dag_id, ti.run_id, group_id)

    def states(self) -> Mapping[str, str | None]:
        """Return task id -> Airflow's state of the task. The key of a mapped task's instance ends in ``_<index>``."""
        return self._request_states(task_group_id=self.group_id)

    def state(self, task_id: str) -> str | None:
        """Return the state of a task that is not mapped. None if it has no state yet, or if Airflow does not answer."""
        return self._request_states(task_ids=[task_id]).get(task_id)

    def _request_states(self, **selection: Any) -> Mapping[str, str | None]:
        try:
            answer = RuntimeTaskInstance.get_task_states(dag_id=self.dag_id, run_ids=[self.run_id], **selection)
        except UNANSWERED:
            return {}
        return {task: None if state is None else str(state) for task, state in answer.get(self.run_id, {}).items()}


def tasks_of_subtasks(mapped: str | None, subtasks: Sequence[str], tasks: Sequence[str]) -> dict[str, str]:
    """Return key of a task in :meth:`Siblings.states` -> the task's subtask or vertex.

    Args:
        mapped: Id of the task that is mapped over ``subtasks``. None if each subtask has its own task in ``tasks``.
        tasks: Ids of the tasks of ``subtasks`` in the same order.
    """
    if mapped is None:
        return dict(zip(tasks, subtasks, strict=True))
    return {f"{mapped}_{index}": name for index, name in enumerate(subtasks)}


OVER = ("failed", "success", "skipped", "removed")
"""States of a deferred task that has ended and will not run again by itself."""


def state_of_task(ti: Any) -> str:
    """Return Airflow's state of a task. "removed" if its Dag run is gone, "not known" if ``ti`` is None.

    Blocks. Raises the request's errors.
    """
    if ti is None:
        return "not known"
    is_mapped = ti.map_index is not None and ti.map_index >= 0
    answer = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if is_mapped else None
    )
    name = f"{ti.task_id}_{ti.map_index}" if is_mapped else ti.task_id
    states = answer.get(ti.run_id, {})
    return "removed" if name not in states else str(states[name] or "none")
