"""The base of a subtask's wait for its group, without a worker slot and without spending a try.

All waiting tasks of a group share the polls of its job in this triggerer. Hundreds of subtasks may have finished while
one continues, and each poll reads all new entries of the journal.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.triggers.master_available import WaitResult
from airflow_provider_ckpt.triggers.siblings import ASK_EVERY, Siblings
from airflow_provider_ckpt.triggers.spark_application import SETTLING
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


class GroupWaitTrigger(BaseTrigger):
    """Trigger that fires once, with a :class:`WaitResult` as JSON.

    It is serialized without secrets. It writes nothing, so two instances do no harm (after another triggerer took
    over), and the end of its task's wait ends nothing else. It logs errors and polls again, because an exception would
    cost the task a try.

    Args:
        job_id: The job.
        coordinate: Id of the task that runs the JobMaster.
        ckpt_conn_id: Id of the connection of the root.
        root: URI of the root.
        poll_interval: Seconds between two polls.
    """

    names: Sequence[str] = ("job_id", "coordinate", "ckpt_conn_id", "root", "poll_interval")
    """Names of the serialized arguments."""
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
                over = await self._look()
                if over is not None:
                    return over
            except (TerminalError, AirflowNotFoundException) as error:
                return WaitResult(str(error), is_blind=True)  # the worker decides, because it may have better access
            except Exception as error:  # from Airflow's API or from a file system
                self._say(f"Job {self.job_id} cannot be read ({type(error).__name__}): {error}")
            await self._sleep(self.poll_interval)

    @abstractmethod
    async def _look(self) -> WaitResult | None:
        """Return why the wait is over, or None to wait on. Raises the errors of the storage and of a bad connection."""

    async def _hook(self) -> CheckpointHook:
        """Return a hook that may be used in a thread."""
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        return hook

    def _asks(self) -> Callable[[], str | None]:
        """Return a function that asks Airflow for the state of the JobMaster's task.

        It answers None under ``dag.test()``, which does not give the trigger its task instance.
        """
        ti, coordinate = self.task_instance, self.coordinate
        if ti is None:
            return lambda: None
        siblings = Siblings.of(ti, "")
        return lambda: siblings.state(coordinate)

    def _say(self, message: str) -> None:
        """Log a message once, until another one comes."""
        if message != self._shown:
            self._shown = message
            self.log.info("%s", message)


@dataclass(frozen=True)
class Reading:
    """Result of one poll.

    Args:
        state: The job in its journal. It must not be changed.
        coordinate: Airflow's last answer about the JobMaster's task, from before ``state`` was read. A job that ended
            in between is over, not alone. None: no answer so far.
        answer: Number of that answer.
    """

    state: JobState
    coordinate: str | None = None
    answer: int = 0


class GroupPolls:
    """Shared polls of one job, for one event loop.

    Args:
        look: Reads the journal. Blocks. Called in one thread at a time, of the threads of ``root``.
        coordinate: Asks Airflow for the state of the JobMaster's task. Called like ``look``.
        root: URI of the root.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        look: Callable[[], JobState],
        coordinate: Callable[[], str | None],
        *,
        root: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._coordinate, self._root, self._clock = look, coordinate, root, clock
        self._made: asyncio.Future[Reading] | None = None
        self._begun_at = 0.0
        self._asked_at: float | None = None
        self._said: str | None = None
        self._answers = 0

    async def reading(self, age: float) -> Reading:
        """Return a reading that began at most ``age`` seconds ago or is under way.

        Raises the error of the poll. A failed poll is not repeated sooner, either.
        """
        if self._made is None or (self._made.done() and self._clock() - self._begun_at >= age):
            self._begun_at = self._clock()
            self._made = asyncio.ensure_future(in_thread(self._read, root=self._root))
            self._made.add_done_callback(_seen)
        return await asyncio.shield(self._made)  # so that the end of one trigger does not end the poll for others

    def _read(self) -> Reading:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY:
            self._asked_at, said = now, self._coordinate()
            if said is not None:
                self._said, self._answers = said, self._answers + 1
        return Reading(self._look(), self._said, self._answers)


def _seen(made: asyncio.Future[Reading]) -> None:
    """Take note of the error of a poll whose trigger may be gone, so that asyncio does not log it."""
    if not made.cancelled():
        made.exception()
