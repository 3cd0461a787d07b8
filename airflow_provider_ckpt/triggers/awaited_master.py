"""Wait for a JobMaster without a worker slot, and without a try: it needs a triggerer, and so does this wait (W7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.triggers.comeback import Comeback, WaitOver
from airflow_provider_ckpt.triggers.comeback_watch import ComebackWatch
from airflow_provider_ckpt.triggers.preparation import Preparation
from airflow_provider_ckpt.triggers.siblings import Siblings
from airflow_provider_ckpt.triggers.spark_application import SETTLING
from airflow_provider_ckpt.triggers.threads import in_thread

_NAMES = ("job_id", "deployment", "epoch", "coordinate", "ckpt_conn_id", "root", "poll_interval", "attempt")
ASK_EVERY = 60.0
"""Seconds between two questions to Airflow for the state of the JobMaster's task."""


class AwaitedMasterTrigger(BaseTrigger):
    """Fires once, with a :class:`WaitOver` as JSON, when a JobMaster has the job again, or none is to come; or, of a
    job whose run has failed, when it is prepared again, or is not to be.

    Serialized without secrets. It writes nothing, so running twice (another triggerer took over) does no harm, and
    whoever ends the task's wait ends nothing else. What goes wrong is logged, and tried again: an exception would cost
    the task a try.

    ``deployment``: what the worker ran in; ``epoch``: of the last JobMaster that it knew of, or of the deployment.
    ``coordinate``: id of the task that runs the JobMaster. ``root``: URI. ``poll_interval``: seconds between two looks.
    ``attempt``: how the journal names the task that waits, if it is for the next deployment; then the first two do not
    count.
    """

    _sleep = staticmethod(asyncio.sleep)

    def __init__(
        self,
        *,
        job_id: str,
        deployment: int,
        epoch: int,
        coordinate: str,
        ckpt_conn_id: str | None,
        root: str,
        poll_interval: float = 10.0,
        attempt: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.deployment = deployment
        self.epoch = epoch
        self.coordinate = coordinate
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.poll_interval = poll_interval
        self.attempt = attempt
        self._shown: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in _NAMES}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await self._sleep(SETTLING)
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> WaitOver:
        watch: ComebackWatch | None = None
        while True:
            try:
                watch = watch or await self._watch()
                over = await in_thread(watch.look)
                if over is not None:
                    return over
            except (TerminalError, AirflowNotFoundException) as error:
                return WaitOver(str(error), is_blind=True)  # a worker may have what the triggerer lacks, and decides
            except Exception as error:  # of Airflow's API, of a file system's driver
                self._say(f"Job {self.job_id} cannot be looked at ({type(error).__name__}): {error}")
            await self._sleep(self.poll_interval)

    async def _watch(self) -> ComebackWatch:
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        every = max(1, round(ASK_EVERY / self.poll_interval))
        comeback = Comeback(self.deployment, self.epoch) if self.attempt is None else Preparation(self.attempt)
        return await in_thread(lambda: ComebackWatch(hook, self.job_id, comeback, self._state, every=every))

    def _state(self) -> str | None:
        """Of the task that runs the JobMaster; ``dag.test()`` does not say whose trigger this is."""
        ti = self.task_instance
        return None if ti is None else Siblings.of(ti, "").state(self.coordinate)

    def _say(self, message: str) -> None:
        """Once, until it is another one."""
        if message != self._shown:
            self._shown = message
            self.log.info("%s", message)
