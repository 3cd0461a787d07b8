"""Restarts for gateways whose tasks do not fail. The test fails if a gateway uses them."""

from __future__ import annotations

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task


class _NoTasks:
    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        raise AssertionError(f"{attempt} of {subtask}")

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        raise AssertionError(f"{attempt} of {subtask}") from error


def _unexpected(message: object) -> None:
    raise AssertionError(message)


UNUSED_RESTARTS = Restarts(_NoTasks(), _unexpected, lambda: "x")
