"""The wait for a job's checkpoint, without a worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError, kind_and_text
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.job_of_task import JobOfTask
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict
from airflow_provider_ckpt.triggers.job_poll import JobPoll
from airflow_provider_ckpt.triggers.threads import in_thread

_NAMES = ("condition", "stalled_after", "max_checkpoint_age", "job_task", "ckpt_conn_id", "root", "poll_interval")


class CheckpointTrigger(BaseTrigger):
    """Trigger that fires once, with a :class:`Verdict` as JSON, when the wait is over.

    The trigger is serialized without secrets, because it reads the connection where it runs. It writes nothing, so a
    second instance in another triggerer does no harm. It logs errors and polls again, because an
    exception would cost the task a try.

    Args:
        condition: Fields of a :class:`CheckpointCondition`.
        stalled_after, max_checkpoint_age: Seconds, see :class:`JobPoll`.
        job_task: ``{dag_id, run_id, task_id}`` of the task that runs the job, instead of the condition's ``job_id``.
        root: URI of the root, overrides the connection's.
        poll_interval: Seconds between two polls.
    """

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
        super().__init__()  # type: ignore[no-untyped-call]
        self.condition = condition
        self.stalled_after = stalled_after
        self.max_checkpoint_age = max_checkpoint_age
        self.job_task = job_task
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in _NAMES}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> Verdict:
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        poll, shown = self._job_poll(hook), None
        while True:
            try:
                await hook.asettings()
                verdict = await in_thread(poll, root=hook.root_uri)
            except (TerminalError, AirflowNotFoundException) as error:
                return Verdict("failed", str(error))
            except Exception as error:  # from Airflow's API or from a file system
                verdict = Verdict("wait", f"The job cannot be read: {kind_and_text(error)}")
            if verdict.outcome != "wait":
                return verdict
            if verdict.message != shown:
                shown = verdict.message
                self.log.info("%s", shown)
            await asyncio.sleep(self.poll_interval)

    def _job_poll(self, hook: CheckpointHook) -> JobPoll:
        task = None if self.job_task is None else JobOfTask(**self.job_task)
        return JobPoll(
            hook,
            CheckpointCondition(**self.condition),
            interval=self.poll_interval,
            task=task,
            stalled_after=self.stalled_after,
            max_checkpoint_age=self.max_checkpoint_age,
        )
