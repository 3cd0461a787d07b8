"""The interface that creates tasks of any kind."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.task import Task


class TaskFactory(Protocol):
    """The factory of subtasks' next attempts. It is called from any thread, for several subtasks at a time."""

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        """Open the subtask's log for ``attempt`` and create its task.

        Return None if the log is closed, because nothing is left to do.

        Raises the errors of opening and creating.
        """

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        """Report that ``attempt`` failed to begin."""
