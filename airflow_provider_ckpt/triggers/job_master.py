"""The JobMaster of a job whose subtasks are tasks of a group, in the triggerer: it holds no worker slot."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.remote.master_host import MasterHost
from airflow_provider_ckpt.remote.timing import LOCAL_POLL, LOST_AFTER, Timing
from airflow_provider_ckpt.report.exit_code import ExitCode
from airflow_provider_ckpt.triggers.master_verdict import MasterVerdict
from airflow_provider_ckpt.triggers.siblings import Siblings
from airflow_provider_ckpt.triggers.spark_application import SETTLING
from airflow_provider_ckpt.triggers.task_state import OVER, state_of_task
from airflow_provider_ckpt.triggers.threads import in_thread
from airflow_provider_ckpt.triggers.unrun import UnrunWatch

if TYPE_CHECKING:
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.report.status_line import StatusLine

_NAMES = ("job_id", "options", "ckpt_conn_id", "root", "group_id", "tasks")
WATCH = 15.0
"""Seconds between two looks at Airflow's states of the subtasks' tasks, while some subtask has no worker."""
STAND_BY = 5.0
"""Seconds between two looks at the JobMaster that has overtaken this one."""
RETRY = 10.0
REST = 1.0
"""See :class:`Timing`."""
_LOCAL, _REMOTE = threading.BoundedSemaphore(4), threading.BoundedSemaphore(32)
"""So many JobMasters work at once: each that does keeps the event loop from the interpreter for up to 5 ms (Python's
switch interval), but for those that wait for an object store."""
_GRACE = 25.0
"""Seconds for a savepoint. Airflow gives ``on_kill`` 30 (``[triggerer] on_kill_timeout``)."""


class JobMasterTrigger(BaseTrigger):
    """Runs the JobMaster, and fires once, with a :class:`MasterVerdict` as JSON, when that has ended.

    Nothing of the job's own code runs here: its sinks are those that the journal tells of. Serialized without secrets.
    Of two that run at once, as Airflow may have it when another triggerer takes over, the later one has the job; the
    other stands by, and takes over again if that one gives no sign of life any more: Airflow does not begin a trigger
    anew in a triggerer that still has it.

    ``options``: :class:`RunOptions` as JSON. ``root``: URI. ``group_id``: of the Airflow tasks; ``tasks``: their keys
    in :meth:`Siblings.states` -> what each runs.
    """

    _sleep = staticmethod(asyncio.sleep)

    def __init__(
        self,
        *,
        job_id: str,
        options: Mapping[str, Any],
        ckpt_conn_id: str | None,
        root: str,
        group_id: str,
        tasks: Mapping[str, str],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.options = options
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.group_id = group_id
        self.tasks = tasks
        self._host: MasterHost | None = None
        self._ended = asyncio.Event()
        self._last: StatusLine | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in _NAMES}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        begun = time.monotonic()
        verdict = await self._verdict()
        await self._sleep(max(0.0, SETTLING - (time.monotonic() - begun)))
        yield TriggerEvent(verdict.to_json())  # type: ignore[no-untyped-call]

    async def _verdict(self) -> MasterVerdict:
        while True:
            try:
                hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
                await hook.asettings()
                verdict = await self._coordinate(hook)
            except (TerminalError, AirflowNotFoundException) as error:
                return MasterVerdict.of_error(error)
            except Exception as error:  # of Airflow's API, of a file system's driver: raised, it would cost a try
                self.log.warning("Job %s: %s: %s", self.job_id, type(error).__name__, error)
                await self._sleep(RETRY)
                continue
            if not verdict.is_fenced:
                return verdict
            final = await self._stand_by(hook, verdict)
            if final is not None:
                return final

    # ---- the JobMaster

    async def _coordinate(self, hook: CheckpointHook) -> MasterVerdict:
        """Raises what Airflow's API or the opening of the storage fails with; before the JobMaster begins."""
        loop, self._ended = asyncio.get_running_loop(), (ended := asyncio.Event())
        codes: list[ExitCode] = []

        def on_end(code: ExitCode) -> None:  # in the JobMaster's thread, maybe behind the end of this one
            codes.append(code)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        self._last = None
        await in_thread(hook.storage)
        watch = UnrunWatch(self.tasks, self._siblings().states, hook.client(self.job_id).look)
        self._host = host = MasterHost(self._runs(hook), on_end)
        await in_thread(host.start)  # which waits for the thread to have begun
        while not await _within(ended, WATCH):
            hopeless = await in_thread(watch.look) if host.has_vacancies else None
            if hopeless is not None:
                host.give_up(hopeless)
        return MasterVerdict.of(codes[0], self._last, host.given_up)

    def _runs(self, hook: CheckpointHook) -> Callable[[OnMaster], ExitCode]:
        location = hook.settings()

        def see(line: StatusLine) -> None:
            self._last = told = line.redacted(location.redact)
            if not told.is_quiet:
                self.log.info("%s", told.message)

        def run(on_master: OnMaster) -> ExitCode:
            from airflow_provider_ckpt.remote.master import RemoteJob, run_master

            options = RunOptions.from_json(self.options)
            timing = replace(Timing.of(options.root), rest=REST)  # of hundreds, each idles most of the time
            remote = RemoteJob(None, options, location, timing, _LOCAL if timing.poll == LOCAL_POLL else _REMOTE)
            return run_master(remote, see, on_master)

        return run

    def _siblings(self) -> Siblings:
        return Siblings.of(self.task_instance, self.group_id)

    # ---- one that was overtaken

    async def _stand_by(self, hook: CheckpointHook, fenced: MasterVerdict) -> MasterVerdict | None:
        """While a JobMaster of this task's very try has the job, and lives. None: nobody coordinates it any more."""
        from airflow_provider_ckpt.remote.master_watch import MasterWatch, Owner

        name = str(RunOptions.from_json(self.options).attempt)
        watch = MasterWatch(hook.storage(), self.job_id, name, LOST_AFTER, STAND_BY)
        self.log.info("Job %s has another JobMaster: is it that of another triggerer, this one stands by", self.job_id)
        while True:
            try:
                owner, state = await in_thread(watch.look)
                if owner is Owner.OVER:
                    return MasterVerdict.of_state(state)
                if owner is Owner.OTHER:
                    return fenced
                if owner is Owner.NOBODY:
                    self.log.info("The JobMaster of epoch %d gives no sign of life: this one takes over", state.epoch)
                    return None
            except Exception as error:
                self.log.warning("Job %s cannot be looked at (%s): %s", self.job_id, type(error).__name__, error)
            await self._sleep(STAND_BY)

    # ---- its end from outside

    async def on_kill(self) -> None:
        """Somebody who marks the task means the job: it is asked to stop, and stops with a savepoint. For one
        that is cleared, or taken over, the next JobMaster coordinates the workers that are there."""
        state = await in_thread(lambda: state_of_task(self.task_instance))
        if state not in OVER or self._host is None:
            self.log.info("The task is %s: its job goes on", state)
            return
        self.log.info("The task is %s: its job is asked to stop", state)
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        await in_thread(lambda: self._ask_to_stop(hook))
        left = "has stopped" if await _within(self._ended, _GRACE) else f"did not stop within {_GRACE:g} s"
        self.log.info("The job %s", left)

    def _ask_to_stop(self, hook: CheckpointHook) -> None:
        client = hook.client(self.job_id)
        state = client.look()
        if state.attempt == self.options.get("attempt") and state.is_held:
            client.stop(epoch=state.epoch, leaves=True)

    async def cleanup(self) -> None:
        """Called whenever :meth:`run` is over, also when this triggerer is told to end: whoever runs it next claims the
        job, and this one leaves as if it were killed."""
        if self._host is not None:
            self._host.abandon()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether it was set within so many seconds."""
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
