"""Restarts for gateways whose tasks do not fail."""

from __future__ import annotations

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task


class _NoTasks:
    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        raise AssertionError(f"{attempt} of {subtask}")

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        raise AssertionError(f"{attempt} of {subtask}") from error


def _unheard(message: object) -> None:
    raise AssertionError(message)


NO_RESTARTS = Restarts(_NoTasks(), _unheard, lambda: "x")
