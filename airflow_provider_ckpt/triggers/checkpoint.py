"""The wait for a job's checkpoint, without a worker slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.job_of_task import JobOfTask
from airflow_provider_ckpt.triggers.base import WaitTrigger
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict
from airflow_provider_ckpt.triggers.job_poll import JobPoll
from airflow_provider_ckpt.triggers.threads import in_thread


class CheckpointTrigger(WaitTrigger):
    """Trigger that fires once, with a :class:`Verdict` as JSON, when the wait is over.

    Args:
        condition: Fields of a :class:`CheckpointCondition`.
        stalled_after, max_checkpoint_age: Seconds, see :class:`JobPoll`.
        job_task: ``{dag_id, run_id, task_id}`` of the task that runs the job, instead of the condition's ``job_id``.
        root: URI of the root, overrides the connection's.
    """

    names = ("condition", "stalled_after", "max_checkpoint_age", "job_task", "ckpt_conn_id", "root", "poll_interval")
    settling = 0.0

    def __init__(
        self,
        *,
        condition: Mapping[str, Any],
        stalled_after: float | None = None,
        max_checkpoint_age: float | None = None,
        job_task: Mapping[str, str] | None = None,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__(poll_interval=poll_interval, ckpt_conn_id=ckpt_conn_id, root=root)
        self.condition = condition
        self.stalled_after = stalled_after
        self.max_checkpoint_age = max_checkpoint_age
        self.job_task = job_task
        self._job_poll: JobPoll | None = None
        self._root_uri: str | None = None

    async def _poll(self) -> Verdict | None:
        if self._job_poll is None:
            hook = await self._hook()
            self._job_poll, self._root_uri = self._new_job_poll(hook), hook.root_uri
        verdict = await in_thread(self._job_poll, root=self._root_uri)
        if verdict.outcome != "wait":
            return verdict
        self._log_once(verdict.message)
        return None

    def _result_of(self, error: Exception) -> Verdict:
        return Verdict("failed", str(error))

    def _new_job_poll(self, hook: CheckpointHook) -> JobPoll:
        task = None if self.job_task is None else JobOfTask(**self.job_task)
        return JobPoll(
            hook,
            CheckpointCondition(**self.condition),
            interval=self.poll_interval,
            task=task,
            stalled_after=self.stalled_after,
            max_checkpoint_age=self.max_checkpoint_age,
        )
