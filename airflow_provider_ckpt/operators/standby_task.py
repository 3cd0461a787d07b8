"""The task of a group whose worker stands by for the workers of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.subtask_id import SubtaskId


class StandbyTaskOperator(SubtaskTaskOperator):
    """Task with a running Spark that takes over the subtasks of a lost worker within seconds.

    A retry would have to start a JVM first. The standby keeps the subtasks until they finish, and the retry, when it
    comes, stands by in its place. The standby does not take subtasks that no worker has begun, because their own tasks
    begin them. It is deferred, and ends, like the task of a subtask: with the last of all subtasks.
    """

    part = "standby"

    def __init__(self, *, subtask: str = "all subtasks", **kwargs: Any) -> None:
        super().__init__(subtask=subtask, spared=True, **kwargs)

    def _subtasks(self, state: JobState) -> tuple[SubtaskId, ...]:
        return () if state.plan is None else state.graph().subtasks

    def _worker(self, context: Context, state: JobState) -> list[str]:
        asked = [word for one in state.asked_for() for word in ("--worker", str(one))]
        return [*asked, "--standby", "--begun"]
