"""The base classes of this package's triggers."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError, kind_and_text
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook

SETTLING = 12.0
"""Seconds that a trigger waits before its first event. Airflow's scheduler may notice up to five seconds late that a
task is deferred. If the task has resumed by then, the task loses a try (apache/airflow#71580)."""


class Result(Protocol):
    """Result of a wait."""

    def to_json(self) -> dict[str, Any]: ...


class CkptTrigger(BaseTrigger):
    """Base of the triggers. A trigger is serialized without secrets, because it reads connections where it runs."""

    names: Sequence[str] = ()
    """Names of the trigger's arguments, which are the names of its attributes, too."""
    _sleep = staticmethod(asyncio.sleep)

    def __init__(self, *, ckpt_conn_id: str | None, root: str | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self._logged: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self.names}

    async def _hook(self) -> CheckpointHook:
        """Return a hook that has read its connection, so that a thread can use the hook."""
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        return hook

    def _log_once(self, message: str, log: Callable[..., object] | None = None) -> None:
        """Log a message, by default as information, if it differs from the last message."""
        if message != self._logged:
            self._logged = message
            (log or self.log.info)("%s", message)


class WaitTrigger(CkptTrigger):
    """Trigger that polls until it has a result, and fires once, with the result as JSON.

    The trigger writes nothing, so a second instance in another triggerer does no harm. It logs an error that may
    pass and polls again, because an exception would cost the task a try.

    Args:
        poll_interval: Seconds between two polls.
    """

    settling = SETTLING

    def __init__(self, *, poll_interval: float, ckpt_conn_id: str | None, root: str | None) -> None:
        super().__init__(ckpt_conn_id=ckpt_conn_id, root=root)
        self.poll_interval = poll_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await self._sleep(self.settling)
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> Result:
        while True:
            try:
                if (result := await self._poll()) is not None:
                    return result
            except (TerminalError, AirflowNotFoundException, TypeError) as error:
                return self._result_of(error)
            except Exception as error:  # from Airflow's API or from a file system
                self._log_once(f"The job cannot be read now: {kind_and_text(error)}")
            await self._sleep(self.poll_interval)

    @abstractmethod
    async def _poll(self) -> Result | None:
        """Return the result, or None to continue the wait. Raises errors of the storage and of a bad connection."""

    @abstractmethod
    def _result_of(self, error: Exception) -> Result:
        """Return the result after an error that another poll would repeat."""
