"""The JobMaster of a group's job in the triggerer, where it holds no worker slot."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import TriggerEvent

from airflow_provider_ckpt.errors import CkptError, TerminalError
from airflow_provider_ckpt.hooks.driver_log import log_status
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.fair_semaphore import FairSemaphore
from airflow_provider_ckpt.remote.master_host import MasterHost
from airflow_provider_ckpt.remote.timing import LOCAL_POLL, Timing
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.redaction import redact_text
from airflow_provider_ckpt.triggers.abandoned_subtasks import AbandonedSubtasks
from airflow_provider_ckpt.triggers.base import SETTLING, CkptTrigger
from airflow_provider_ckpt.triggers.group_attempt import ask_to_stop, is_of_group, is_twin_of
from airflow_provider_ckpt.triggers.group_task_states import OVER, Siblings, state_of_task
from airflow_provider_ckpt.triggers.master_verdict import MasterRestartPolicy, MasterVerdict
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.status.status_line import StatusLine
    from airflow_provider_ckpt.storage.location import Location

_Result = TypeVar("_Result")
WATCH = 15.0
"""Seconds between two polls of Airflow for the states of the subtasks' tasks, while a subtask has no worker."""
STAND_BY = 5.0
"""Seconds between two polls of the JobMaster that has fenced this trigger's JobMaster."""
RETRY = 10.0
REST = 1.0
"""Longest poll interval of an idle JobMaster, in seconds (:attr:`Timing.rest`)."""
_KILL_PAUSE = 1.0
_LOCAL, _REMOTE = FairSemaphore(4), FairSemaphore(32)
"""Maximum numbers of JobMasters that work at the same time, for local and for other roots. Each may block the event
loop for up to 5 ms at a time (Python's switch interval), unless it waits for an object store."""
_GRACE = 25.0
"""Seconds to wait for a savepoint. Airflow gives ``on_kill`` 30 seconds (``[triggerer] on_kill_timeout``)."""


class JobMasterTrigger(CkptTrigger):
    """Trigger that runs the JobMaster and fires once at its end, with a :class:`MasterVerdict` as JSON.

    The job's own code does not run in the triggerer, because the trigger makes the sinks from the journal.
    Airflow may run two instances at once, when another triggerer takes over. The later JobMaster then has the job. The
    earlier trigger waits, because Airflow would not start a trigger again in a triggerer that still runs it. If the
    later JobMaster gives no sign of life, the earlier trigger takes over the job again.

    Args:
        options, timing: A :class:`RunOptions` and a :class:`Timing` as JSON.
        tasks: Key of an Airflow task in :meth:`Siblings.states` → the task's subtask or vertex.
    """

    names = ("job_id", "options", "ckpt_conn_id", "root", "group_id", "tasks", "timing")
    root: str

    def __init__(
        self,
        *,
        job_id: str,
        options: Mapping[str, Any],
        ckpt_conn_id: str | None,
        root: str,
        group_id: str,
        tasks: Mapping[str, str],
        timing: Mapping[str, float],
    ) -> None:
        super().__init__(ckpt_conn_id=ckpt_conn_id, root=root)
        self.job_id = job_id
        self.options = options
        self.group_id = group_id
        self.tasks = tasks
        self.timing = timing
        self._host: MasterHost | None = None
        self._ended, self._is_stopping = asyncio.Event(), False
        self._last: StatusLine | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        started_at = time.monotonic()
        verdict = await self._verdict()
        await self._sleep(max(0.0, SETTLING - (time.monotonic() - started_at)))
        yield TriggerEvent(verdict.to_json())  # type: ignore[no-untyped-call]

    async def _verdict(self) -> MasterVerdict:
        restart_policy, redact = MasterRestartPolicy(self._timing.silence), redact_text
        while True:
            try:
                hook = await self._hook()
                redact = hook.settings().redact
                verdict = await self._with_slot(partial(self._journaled_end, hook)) or await self._coordinate(hook)
                if verdict.exit_code is ExitCode.REFUSED:  # the job's end may have been journaled meanwhile
                    job_end = await self._with_slot(partial(self._journaled_end, hook))
                    verdict = job_end or verdict
            except (TerminalError, AirflowNotFoundException) as error:
                return MasterVerdict.of_error(error).redacted(redact)
            except Exception as error:  # from Airflow's API or a file system; raising would cost a try
                self.log.warning("Job %s: %s: %s", self.job_id, type(error).__name__, error)
                await self._sleep(RETRY)
                continue
            final = await self._stand_by(hook, verdict) if verdict.is_fenced else verdict
            if final is None:
                continue
            if not restart_policy.may_restart(final, await self._with_slot(partial(self._state, hook))):
                return final.redacted(redact)
            self.log.warning("Job %s: the JobMaster restarts: %s", self.job_id, redact(final.message))
            await self._sleep(RETRY)

    def _state(self, hook: CheckpointHook) -> JobState | None:
        """Return the job's state, or None if it cannot be read now."""
        try:
            return hook.client(self.job_id).read_state()
        except CkptError:
            return None

    def _journaled_end(self, hook: CheckpointHook) -> MasterVerdict | None:
        """Return the verdict on a job that has FINISHED or that this group has ended. Otherwise return None."""
        state = hook.client(self.job_id).read_state()
        is_over = state.status is not None and not state.deployment
        if is_over and (state.status is JobStatus.FINISHED or is_of_group(self._attempt, str(state.attempt))):
            return MasterVerdict.of_state(state)
        return None

    @property
    def _timing(self) -> Timing:
        return Timing(**self.timing)

    @property
    def _slots(self) -> FairSemaphore:
        return _LOCAL if Timing.of(self.root).poll == LOCAL_POLL else _REMOTE

    async def _with_slot(self, function: Callable[[], _Result]) -> _Result:
        """Run a function in a thread when a slot is free, because hundreds of triggers may start at once."""

        def work() -> _Result:
            with self._slots:
                return function()

        return await in_thread(work, root=self.root)

    @property
    def _attempt(self) -> str:
        return str(self.options["attempt"])

    # ---- the JobMaster

    async def _coordinate(self, hook: CheckpointHook) -> MasterVerdict:
        """Run the JobMaster to its end. Raises errors of Airflow's API, and storage errors from before the start."""
        loop, self._ended = asyncio.get_running_loop(), (ended := asyncio.Event())
        codes: list[ExitCode] = []

        def on_end(code: ExitCode) -> None:  # in the JobMaster's thread, possibly after the end of this trigger
            codes.append(code)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        self._last, options = None, RunOptions.from_json(self.options)
        client = await self._with_slot(partial(hook.client, self.job_id))
        watch = AbandonedSubtasks(self.tasks, self._siblings().states, client.read_state)
        self._host = host = MasterHost(self._master_runner(hook.settings(), options), on_end)
        try:
            await in_thread(host.start, root=self.root)  # in a thread, because it waits until the new thread has begun
            while not await _is_set_within(ended, WATCH):
                cause = await in_thread(watch.check, root=self.root) if host.has_unassigned else None
                if cause is not None:
                    host.end_early(cause)
        except Exception:
            host.abandon()
            raise
        return MasterVerdict.of(codes[0], self._last, host.end_cause)

    def _master_runner(self, location: Location, options: RunOptions) -> Callable[[OnMaster], ExitCode]:
        def report(line: StatusLine) -> None:
            self._last = shown = line.redacted(location.redact)
            log_status(self.log, shown)

        def run(on_master: OnMaster) -> ExitCode:
            from airflow_provider_ckpt.remote.master import RemoteJob, run_master

            timing = replace(self._timing, rest=REST)  # because most JobMasters of a triggerer idle
            remote = RemoteJob(None, options, location, timing, self._slots)
            return run_master(remote, report, on_master)

        return run

    def _siblings(self) -> Siblings:
        return Siblings.of(self.task_instance, self.group_id)

    # ---- a fenced JobMaster

    async def _stand_by(self, hook: CheckpointHook, fenced: MasterVerdict) -> MasterVerdict | None:
        """Wait while another JobMaster of this task is alive and has the job.

        Return None if this trigger must take over the job. Return ``fenced`` if another task or process has the job. If
        the job is over, return the verdict on it.
        """
        from airflow_provider_ckpt.remote.leader_monitor import LeaderMonitor, Owner

        is_twin = partial(is_twin_of, self._attempt)
        watch: LeaderMonitor | None = None
        self.log.info("Job %s has another JobMaster. If it is in another triggerer, this one stands by", self.job_id)
        while True:
            try:
                storage = await in_thread(hook.storage, root=self.root)
                watch = watch or LeaderMonitor(storage, self.job_id, is_twin, self._timing.lost_after, STAND_BY)
                owner, state = await in_thread(watch.poll, root=self.root)
                if owner is Owner.OVER:
                    return MasterVerdict.of_state(state)
                if owner is Owner.OTHER:
                    return fenced
                if owner is Owner.NOBODY:
                    self.log.info("The JobMaster of epoch %d gives no sign of life: this one takes over", state.epoch)
                    return None
            except Exception as error:
                self.log.warning("Job %s cannot be read (%s): %s", self.job_id, type(error).__name__, error)
            await self._sleep(STAND_BY)

    # ---- an end from outside

    async def on_kill(self) -> None:
        """Ask the job to stop with a savepoint, if a user marked the task.

        After a clear, or if another triggerer takes over, the job continues, because the next JobMaster coordinates the
        same workers.
        """
        deadline = time.monotonic() + _GRACE
        while True:
            try:
                state = await in_thread(lambda: state_of_task(self.task_instance))
                if state not in OVER:
                    self.log.info("The task is %s: its job continues", state)
                    return
                if await self._ask_to_stop():
                    break
            except Exception as error:
                self.log.warning("Job %s was not asked to stop: %s: %s", self.job_id, type(error).__name__, error)
            if time.monotonic() >= deadline:
                return
            await self._sleep(_KILL_PAUSE)
        self._is_stopping = True
        self.log.info("The task is %s: its job is asked to stop", state)
        progress = (
            "has stopped" if await _is_set_within(self._ended, deadline - time.monotonic()) else "is still stopping"
        )
        self.log.info("The job %s", progress)

    async def _ask_to_stop(self) -> bool:
        hook = await self._hook()
        return await in_thread(lambda: ask_to_stop(hook.client(self.job_id), self._attempt), root=self.root)

    async def cleanup(self) -> None:
        """Abandon the JobMaster, unless it is stopping its job. Airflow calls this method after the end of :meth:`run`.

        A stopping JobMaster continues until the stop has ended, for the checkpoint timeout at most. After a shutdown of
        the triggerer, the JobMaster in another triggerer claims the job.
        """
        if self._host is not None and not self._is_stopping:
            self._host.abandon()


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
