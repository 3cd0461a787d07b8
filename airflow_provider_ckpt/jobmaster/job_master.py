"""The driver of a job: one loop that owns the coordinator, and the runners it commands.

Every message goes through one inbox; effects are carried out in order, in the loop's thread. What takes
long (a release, a query's restart) runs elsewhere and answers with a message.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.messages import (
    Append,
    DrainSubtask,
    DropSource,
    Effect,
    EndJob,
    FinishSubtask,
    Message,
    NotifyCompleted,
    Release,
    ResumeWithout,
    StopRequested,
    SubtaskFailed,
    TriggerBarrier,
)
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.deadlines import due, passed
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.releaser import Releaser
from airflow_provider_ckpt.jobmaster.retention import Retention
from airflow_provider_ckpt.jobmaster.takeover import OwnedJournal
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.events import RequestAnswered
from airflow_provider_ckpt.journal.requests import pending_requests
from airflow_provider_ckpt.partitions.errors import LogFencedError
from airflow_provider_ckpt.report.status import StatusReporter
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.context import InputAdvanced, RunContext, WorkerCrashed
from airflow_provider_ckpt.spark.task.progress import ProgressListener, Runner
from airflow_provider_ckpt.spark.task.silence import silenced

__all__ = ["JobDriver", "Outcome", "Runner"]

log = logging.getLogger(__name__)

HOUSEKEEPING = 1.0
"""Seconds between looks at the fence, at requests, at the health of the queries."""
LONGEST_WAIT = 0.1
LAST_BATCH = 5.0
"""Seconds that the running batches get to end by themselves once a job is STOPPED: what they did need not be done
again, and nothing is interrupted."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``status``: FINISHED, STOPPED, FAILED, RESTARTING."""

    status: str
    cause: str | None = None


class JobDriver:
    """``runners``: subtask -> runner, of the unfinished subtasks. Use once: :meth:`run`."""

    def __init__(
        self,
        context: RunContext,
        coordinator: Coordinator,
        journal: OwnedJournal,
        runners: Mapping[str, Runner],
        releaser: Releaser,
        retention: Retention,
        status: StatusReporter,
        inbox: queue.Queue[object],
        clock: Clock | None = None,
    ) -> None:
        self._context, self._coordinator, self._journal = context, coordinator, journal
        self._runners, self._releaser, self._retention = dict(runners), releaser, retention
        self._status, self._inbox = status, inbox
        self._clock = clock or Clock()
        self._outcome: Outcome | None = None
        self._has_failed = False
        self._next_look = 0.0
        self._running_since: float | None = None

    def run(self) -> Outcome:
        """Runs until the job has ended. Raises FencedError / LogFencedError, and what a query failed with
        only through the coordinator (an Outcome)."""
        listener = ProgressListener(self._runners)
        self._context.spark.streams.addListener(listener)
        try:
            self._carry_out(self._coordinator.start(self._clock.now()))
            for runner in self._runners.values():
                runner.start()
            while self._outcome is None:
                self._step()
            return self._outcome
        finally:
            self._stop_runners()
            self._releaser.close()
            self._retention.close()
            self._context.spark.streams.removeListener(listener)

    # ---- the loop

    def _step(self) -> None:
        try:
            message = self._inbox.get(timeout=self._patience(self._clock.now()))
        except queue.Empty:
            message = None
        if message is not None:
            self._receive(message)
        if self._outcome is None:
            self._carry_out(self._coordinator.tick(self._clock.now()))
        if self._outcome is None and self._clock.now() >= self._next_look:
            self._look_around(self._clock.now())

    def _patience(self, now: float) -> float:
        deadline = self._coordinator.next_deadline(now)
        wait = LONGEST_WAIT if deadline is None else min(LONGEST_WAIT, deadline - now)
        return max(0.001, wait)

    def _receive(self, message: object) -> None:
        if isinstance(message, InputAdvanced):
            runner = self._runners.get(message.subtask)
            if runner is not None:
                runner.pull_inputs()
        elif isinstance(message, WorkerCrashed):
            self._crashed(message.subtask, message.error)
        else:
            self._tell(message)  # type: ignore[arg-type]

    def _tell(self, message: Message) -> None:
        self._carry_out(self._coordinator.handle(message, self._clock.now()))

    def _look_around(self, now: float) -> None:
        self._next_look = now + HOUSEKEEPING
        self._journal.check_fenced()
        self._journal.tick(now)
        for subtask, runner in list(self._runners.items()):
            runner.pull_inputs()
            try:
                runner.check()
            except BaseException as error:  # whatever Spark raised is the coordinator's to judge
                self._crashed(subtask, error)
        self._note_running(now)
        self._take_requests()
        self._take_deadlines(now)

    def _note_running(self, now: float) -> None:
        if self._running_since is None and self._coordinator.status == "RUNNING":
            self._running_since = now
            self._status.running(self._journal.state)
            over = passed(self._context.options, self._clock.wall())
            if over is not None:
                message = f"{over.option} ({over.at.isoformat()}) is over: the run ends with what is there"
                self._status.say("warning", message, self._journal.state)

    def _take_requests(self) -> None:
        state, context = self._journal.state, self._context
        for request in pending_requests(context.storage, context.job_id, context.epoch, state.answered):
            if request.kind in ("stop", "drain"):
                self._tell(StopRequested(request.kind, request.name, request.leaves))  # type: ignore[arg-type]
            else:
                outcome = f"refused: {request.problem}"
                self._journal.write(RequestAnswered(request.name, request.kind, outcome, self._clock.wall()))

    def _take_deadlines(self, now: float) -> None:
        if self._running_since is None or self._coordinator.stopping:
            return
        ending = due(self._context.options, ran=now - self._running_since, now=self._clock.wall())
        if ending is not None and not (ending == "drain" and self._coordinator.draining):  # a stop wins over a drain
            self._tell(StopRequested(ending, leaves=ending == "stop"))

    def _crashed(self, subtask: str, error: BaseException) -> None:
        if isinstance(error, (FencedError, LogFencedError)):
            raise error
        terminal = isinstance(error, CkptError) and not error.retryable
        epoch, attempt = self._context.epoch, self._context.attempt
        if self._has_failed:
            log.error("subtask %s failed too: %s", subtask, error)  # the first failure is the one that ended the run
        else:
            log.error("subtask %s failed", subtask, exc_info=error)
            self._show_traceback(subtask, error)
        self._has_failed = True
        self._tell(SubtaskFailed(epoch, subtask, attempt, str(error), terminal))

    def _show_traceback(self, subtask: str, error: BaseException) -> None:
        """Of the user's own code, if it was that."""
        found = find_cause(error.__cause__) if error.__cause__ is not None else None
        if found is not None and found.traceback is not None:
            message = f"{subtask} failed with {found.message}"
            self._status.say("subtask_failed", message, self._journal.state, traceback=found.traceback)

    # ---- effects

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self._journal.write(effect.event, flush=effect.flush)
                self._status.event(effect.event, self._journal.state)
            else:
                _EFFECTS[type(effect)](self, effect)

    def _trigger(self, effect: TriggerBarrier) -> None:
        runner = self._runners.get(effect.subtask)
        if runner is not None:  # else it finished meanwhile: its SubtaskDone is in the inbox, and leads to a new plan
            runner.trigger(effect.checkpoint)

    def _release(self, effect: Release) -> None:
        state = self._journal.state
        self._releaser.release(state.checkpoints[effect.checkpoint], state.checkpoints.get(state.last_released))

    def _drop(self, effect: DropSource) -> None:
        self._runners[effect.subtask].drop(effect.uid)

    def _resume(self, effect: ResumeWithout) -> None:
        self._runners[effect.subtask].resume(effect.uid)

    def _drain(self, effect: DrainSubtask) -> None:
        self._runners[effect.subtask].drain()

    def _finish(self, effect: FinishSubtask) -> None:
        self._runners.pop(effect.subtask).finish()

    def _completed(self, effect: NotifyCompleted) -> None:
        self._retention.completed(effect.checkpoint)

    def _end(self, effect: EndJob) -> None:
        self._outcome = Outcome(effect.status, effect.cause)

    def _stop_runners(self) -> None:
        if self._outcome is not None and self._outcome.status == "STOPPED":
            self._wait_for_batches(time.monotonic() + LAST_BATCH)
        if not self._runners:
            return
        with silenced(self._context.spark):
            for runner in self._runners.values():
                runner.stop()
                runner.close()

    def _wait_for_batches(self, until: float) -> None:
        for runner in self._runners.values():
            try:
                runner.wait_for_batch(until)
            except CkptError as error:  # the job is STOPPED, and its savepoint released, whatever becomes of it
                log.warning("the last batch of %s is left to the next run: %s", runner.subtask, error)


_EFFECTS: dict[type, Callable[[JobDriver, Any], None]] = {
    TriggerBarrier: JobDriver._trigger,
    Release: JobDriver._release,
    DropSource: JobDriver._drop,
    ResumeWithout: JobDriver._resume,
    DrainSubtask: JobDriver._drain,
    FinishSubtask: JobDriver._finish,
    NotifyCompleted: JobDriver._completed,
    EndJob: JobDriver._end,
}
