"""A wait of a subtask's task for something of its group, without a worker slot and without a try."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.siblings import Siblings
from airflow_provider_ckpt.triggers.spark_application import SETTLING


class GroupWaitTrigger(BaseTrigger):
    """Fires once, with a :class:`WaitOver` as JSON.

    Serialized without secrets. It writes nothing, so running twice (another triggerer took over) does no harm, and
    whoever ends the task's wait ends nothing else. What goes wrong is logged, and tried again: an exception would cost
    the task a try.

    ``coordinate``: id of the task that runs the JobMaster. ``root``: URI. ``poll_interval``: seconds between two looks.
    """

    names: Sequence[str] = ("job_id", "coordinate", "ckpt_conn_id", "root", "poll_interval")
    """Of what is kept of it."""
    _sleep = staticmethod(asyncio.sleep)

    def __init__(
        self, *, job_id: str, coordinate: str, ckpt_conn_id: str | None, root: str, poll_interval: float = 10.0
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.coordinate = coordinate
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.poll_interval = poll_interval
        self._shown: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self.names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await self._sleep(SETTLING)
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> WaitOver:
        while True:
            try:
                over = await self._look()
                if over is not None:
                    return over
            except (TerminalError, AirflowNotFoundException) as error:
                return WaitOver(str(error), is_blind=True)  # a worker may have what the triggerer lacks, and decides
            except Exception as error:  # of Airflow's API, of a file system's driver
                self._say(f"Job {self.job_id} cannot be looked at ({type(error).__name__}): {error}")
            await self._sleep(self.poll_interval)

    @abstractmethod
    async def _look(self) -> WaitOver | None:
        """None: wait on. Raises the storage's errors, and what a connection lacks."""

    async def _hook(self) -> CheckpointHook:
        """That may be used in a thread."""
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        return hook

    def _asks(self) -> Callable[[], str | None]:
        """For the state of the task that runs the JobMaster; ``dag.test()`` does not say whose trigger this is."""
        ti, coordinate = self.task_instance, self.coordinate
        if ti is None:
            return lambda: None
        siblings = Siblings.of(ti, "")
        return lambda: siblings.state(coordinate)

    def _say(self, message: str) -> None:
        """Once, until it is another one."""
        if message != self._shown:
            self._shown = message
            self.log.info("%s", message)
