"""Who makes tasks, whatever runs them."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.task import Task


class TaskFactory(Protocol):
    """Makes the next attempts of subtasks. Any thread calls it, for several subtasks at a time."""

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        """Open the subtask's log for ``attempt``, and make its task; None if the log is closed: nothing is left to do.
        Raises what opening and making raise."""

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        """``attempt`` came to nothing: report it."""
