"""Wait for a checkpoint without a worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.job_watch import JobWatch
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict


class CheckpointTrigger(BaseTrigger):
    """Fires once, with a :class:`Verdict` as JSON, when the wait is over.

    Serialized without secrets: the connection is looked up where it runs. It writes nothing, so running
    twice (another triggerer took over) does no harm. A storage that cannot be reached is asked again.
    """

    def __init__(
        self,
        *,
        job_id: str,
        checkpoint: int | Literal["final"] = "final",
        released: bool = True,
        wait_for_restart: bool = False,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.checkpoint: int | Literal["final"] = checkpoint
        self.released = released
        self.wait_for_restart = wait_for_restart
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = (
            "job_id",
            "checkpoint",
            "released",
            "wait_for_restart",
            "ckpt_conn_id",
            "root",
            "poll_interval",
        )
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> Verdict:
        condition = CheckpointCondition(self.job_id, self.checkpoint, self.released, self.wait_for_restart)
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        shown = None
        try:
            await hook.asettings()
            watch = JobWatch(hook, self.job_id)
            while True:
                verdict = await asyncio.to_thread(self._look, condition, watch)
                if verdict.outcome != "wait":
                    return verdict
                if verdict.message != shown:
                    shown = verdict.message
                    self.log.info("%s", shown)
                await asyncio.sleep(self.poll_interval)
        except (TerminalError, AirflowException) as error:
            return Verdict("failed", str(error))

    @staticmethod
    def _look(condition: CheckpointCondition, watch: JobWatch) -> Verdict:
        try:
            return condition.judge(watch.state())
        except TransientError as error:
            return Verdict("wait", str(error))
