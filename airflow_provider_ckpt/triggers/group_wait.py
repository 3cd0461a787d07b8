"""The base of a subtask's wait for its group, without a worker slot and without spending a try."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.triggers.siblings import Siblings
from airflow_provider_ckpt.triggers.spark_application import SETTLING

if TYPE_CHECKING:
    pass


class GroupWaitTrigger(BaseTrigger):
    """Trigger that fires once, with a :class:`WaitResult` as JSON.

    The trigger is serialized without secrets. It writes nothing, so a second instance in another triggerer does no
    harm. It logs errors and polls again, because an exception would cost the task a try.

    Args:
        coordinate: Id of the task that runs the JobMaster.
        poll_interval: Seconds between two polls.
    """

    names: Sequence[str] = ("job_id", "coordinate", "ckpt_conn_id", "root", "poll_interval")
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

    async def _wait(self) -> WaitResult:
        while True:
            try:
                result = await self._poll()
                if result is not None:
                    return result
            except (TerminalError, AirflowNotFoundException) as error:
                return WaitResult(str(error), is_blind=True)  # the worker decides, because it may have better access
            except Exception as error:  # from Airflow's API or from a file system
                self._log_once(f"Job {self.job_id} cannot be read ({type(error).__name__}): {error}")
            await self._sleep(self.poll_interval)

    @abstractmethod
    async def _poll(self) -> WaitResult | None:
        """Return why the wait is over, or None to continue. Raises errors of the storage and of a bad connection."""

    async def _hook(self) -> CheckpointHook:
        """Return a hook that has read its connection, so that a thread can use the hook."""
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        return hook

    def _state_reader(self) -> Callable[[], str | None]:
        """Return a function that returns Airflow's state of the JobMaster's task.

        Under ``dag.test()`` that state is None, because the trigger does not get its task instance there.
        """
        ti, coordinate = self.task_instance, self.coordinate
        if ti is None:
            return lambda: None
        siblings = Siblings.of(ti, "")
        return lambda: siblings.state(coordinate)

    def _log_once(self, message: str) -> None:
        """Log a message if it differs from the last message."""
        if message != self._shown:
            self._shown = message
            self.log.info("%s", message)


@dataclass(frozen=True)
class WaitResult:
    """The reason for the end of a wait.

    Args:
        is_alone: True if no JobMaster will start, because Airflow no longer runs its task.
        is_blind: True if the triggerer cannot decide, for example because it may not read the job.
    """

    reason: str
    is_alone: bool = False
    is_blind: bool = False

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> WaitResult:
        return cls(event["reason"], event["is_alone"], event.get("is_blind", False))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
