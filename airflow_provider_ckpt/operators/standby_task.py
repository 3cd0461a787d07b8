"""A task of a group whose worker stands by for those of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.subtask_id import SubtaskId


class StandbyTaskOperator(SubtaskTaskOperator):
    """It has a Spark that is up and warm, and runs what a worker leaves behind within seconds of its loss: a retry has
    its JVM to start first. It keeps that until it is finished; the retry, when it comes, stands by in its place. What
    no worker has begun is left to the task that is to begin it. It waits, and ends, as the task of a subtask does:
    with the last of all."""

    part = "standby"

    def __init__(self, *, subtask: str = "all subtasks", **kwargs: Any) -> None:
        super().__init__(subtask=subtask, spared=True, **kwargs)

    def _subtasks(self, state: JobState) -> tuple[SubtaskId, ...]:
        return () if state.plan is None else state.graph().subtasks

    def _worker(self, context: Context, state: JobState) -> list[str]:
        asked = [word for one in state.asked_for() for word in ("--worker", str(one))]
        return [*asked, "--standby", "--begun"]
