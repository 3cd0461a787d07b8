"""What Airflow says of the other tasks of a group, asked while a task of it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

GIVEN_UP = ("failed", "upstream_failed", "skipped", "removed")
"""States from which Airflow takes no task by itself."""
ASK_EVERY = 60.0
"""Seconds between two questions of a task that waits for the state of the JobMaster's task."""


@dataclass(frozen=True)
class Siblings:
    """Of one Dag run. Each question is a request to Airflow's API server; the answer is nothing when that cannot be
    asked: whoever asks asks again, and runs a job that must not end for it."""

    dag_id: str
    run_id: str
    group_id: str

    @classmethod
    def of(cls, ti: Any, group_id: str) -> Siblings:
        return cls(ti.dag_id, ti.run_id, group_id)

    def states(self) -> Mapping[str, str | None]:
        """Task id (of a mapped task: with ``_<index>`` behind it) -> state, Airflow's word."""
        return self._asked(task_group_id=self.group_id)

    def state(self, task_id: str) -> str | None:
        """Of one task that is not mapped; None: it has none yet, or Airflow cannot be asked."""
        return self._asked(task_ids=[task_id]).get(task_id)

    def _asked(self, **what: Any) -> Mapping[str, str | None]:
        try:
            found = RuntimeTaskInstance.get_task_states(dag_id=self.dag_id, run_ids=[self.run_id], **what)
        except (AirflowException, AirflowRuntimeError, OSError, EOFError):
            return {}
        return {task: None if state is None else str(state) for task, state in found.get(self.run_id, {}).items()}


def tasks_of_subtasks(mapped: str | None, subtasks: Sequence[str], tasks: Sequence[str]) -> dict[str, str]:
    """Key in :meth:`Siblings.states` -> what the task runs. ``mapped``: the id of the task that is mapped over
    ``subtasks``; None: ``tasks`` are those of the subtasks, in the same order."""
    if mapped is None:
        return dict(zip(tasks, subtasks, strict=True))
    return {f"{mapped}_{index}": name for index, name in enumerate(subtasks)}
