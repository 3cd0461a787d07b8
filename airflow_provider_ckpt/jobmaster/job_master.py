"""The JobMaster: one loop that owns the coordinator and carries out its decisions.

All messages arrive in one inbox. The thread of the loop carries out effects in order. Slow steps (a release, the
restart of a query) run in other threads and answer with a message. The tasks are reached through a gateway.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import typing
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.effects import (
    Append,
    Effect,
    EndJob,
    Notice,
    NotifyCompleted,
    Release,
    TryUpgrade,
)
from airflow_provider_ckpt.coordinator.protocol.messages import Message, ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.coordinator.protocol.reports import (
    DataAvailable,
    QueryMeasured,
    ReadingBegun,
    SplitsCompleted,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
)
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.job.options.deadlines import due, passed
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.errors import AbandonedError
from airflow_provider_ckpt.jobmaster.gateway import Inbox, Received, TaskGateway
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity, Upgrades
from airflow_provider_ckpt.jobmaster.overview_writer import OverviewWriter
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.release.releaser import Releaser
from airflow_provider_ckpt.jobmaster.request_handler import RequestHandler
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    Event,
    RequestAnswered,
    SinkReleased,
    StatusChanged,
)
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus, RunEnd
from airflow_provider_ckpt.status.job_overview import JobOverview
from airflow_provider_ckpt.status.live_facts import LiveFacts
from airflow_provider_ckpt.status.overview_builder import DriverFacts, job_overview
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.status.status_reporter import StatusReporter

log = logging.getLogger(__name__)

HOUSEKEEPING = 1.0
"""Seconds between checks of the fence, the requests and the health of the tasks."""
LONGEST_WAIT = 0.1
_COMMANDS = typing.get_args(Command)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Args:
        upgrade: Name of the request for which the driver resumes the job at once as another version, or None.
        ran: Seconds for which this driver has run the job.
    """

    status: RunEnd
    cause: str | None = None
    upgrade: str | None = None
    ran: float = 0.0


class JobMaster:
    """The JobMaster of one epoch. Call :meth:`run` one time.

    Args:
        turns: Context manager around each step of the loop. It limits how many JobMasters of a process work at a time.
        upgrades: Loader of other versions of the job; None if this kind of run has no upgrades.
    """

    def __init__(
        self,
        identity: JobIdentity,
        coordinator: Coordinator,
        *,
        journal: OwnedJournal,
        gateway: TaskGateway,
        releaser: Releaser,
        retention: Retention,
        status: StatusReporter,
        inbox: Inbox,
        clock: Clock | None = None,
        turns: AbstractContextManager[object] | None = None,
        upgrades: Upgrades | None = None,
    ) -> None:
        self._upgrades = upgrades
        self._job, self._options = identity, identity.options
        self._coordinator, self._journal, self._gateway = coordinator, journal, gateway
        self._releaser, self._retention = releaser, retention
        self._status, self._inbox = status, inbox
        self._clock = clock or Clock()
        self._outcome: Outcome | None = None
        self._next_poll = 0.0
        self._running_since: float | None = None
        self._counting_since: float | None = None
        """Time from which the seconds of ``stop_after`` and ``drain_after`` count; None before they count."""
        self._has_published, self._reading = False, set[SubtaskId]()
        self._abandoned = threading.Event()
        self._turns = turns or nullcontext()
        self._live = LiveFacts(self._clock.wall())
        self._overviews = OverviewWriter(identity.storage, identity.options.overview_interval)
        self._request_handler = RequestHandler(
            identity,
            coordinator,
            journal,
            upgrades,
            inbox,
            self._clock,
            handle=self._handle,
            append=self._append,
            warn=self._warn,
        )

    def abandon(self) -> None:
        """Make :meth:`run` raise AbandonedError before it writes anything else. Any thread may call this."""
        self._abandoned.set()

    def run(self) -> Outcome:
        """Run until the job has ended. The failure of a task is not raised: the Outcome has it.

        Raises FencedError, OvertakenError, AbandonedError, and the errors of the journal and the storage.
        """
        try:
            self._gateway.start()
            with self._turns:
                self._carry_out(self._coordinator.start(self._clock.now()))
            while self._outcome is None:
                self._step()
            return self._outcome
        finally:
            outcome = self._outcome
            stopped = outcome is not None and (outcome.status is JobStatus.STOPPED or outcome.upgrade is not None)
            try:
                self._gateway.stop(after_batch=stopped)
            finally:
                if self._upgrades is not None:
                    self._upgrades.close()
                self._releaser.close()
                self._retention.close()
                self._log_late_failures()
                if outcome is not None:
                    self._write_last_overview()

    # ---- the loop

    def _step(self) -> None:
        try:
            message = self._inbox.get(timeout=self._wait_time(self._clock.now()))
        except queue.Empty:
            message = None
        if self._abandoned.is_set():
            raise AbandonedError(epoch=self._job.epoch, job_id=self._job.job_id)
        with self._turns:
            self._turn(message)

    def _turn(self, message: Received | None) -> None:
        if message is not None:
            self._receive(message)
        if self._outcome is None:
            self._carry_out(self._coordinator.tick(self._clock.now()))
        self._journal.tick()
        if self._outcome is None and self._clock.now() >= self._next_poll:
            self._housekeep(self._clock.now())

    def _wait_time(self, now: float) -> float:
        deadline = self._coordinator.next_deadline(now)
        wait = LONGEST_WAIT if deadline is None else min(LONGEST_WAIT, deadline - now)
        return max(0.001, wait)

    def _receive(self, message: Received) -> None:
        match message:
            case SubtaskFenced():
                self._refuse_fenced(message)
                return
            case DataAvailable():
                self._gateway.pull_inputs(message.consumers)
                return
            case ReadingBegun():
                self._reading.add(message.subtask)
                self._has_published |= message.published
                return
            case SplitsCompleted():
                self._has_published = True
            case SubtaskFailed():
                self._note_failed(message)
            case QueryMeasured():
                self._live.measured(message, self._clock.now())
            case ReleaseFailed():
                self._live.release_failed(message.sink, message.cause, self._clock.wall())
            case ReleaseHeld():
                self._live.release_held(message.sink, message.gate_of)
            case ReleaseDone():
                self._live.released(message.sink)
            case SubtaskOpened():
                self._gateway.on_restarted(message.subtask, message.attempt)
        self._handle(message)

    def _refuse_fenced(self, report: SubtaskFenced) -> None:
        """Ignore an attempt that its successor in this epoch has fenced.

        Raises FencedError or OvertakenError for any other fence, because it comes from a later driver of the job.
        """
        self._journal.check_fenced()  # its error names the later driver
        if report.by is None or report.by.epoch != self._job.epoch:
            raise OvertakenError(
                "{subtask} was taken over by a later attempt, this driver stops: {cause}",
                subtask=report.subtask,
                cause=report.cause,
            )

    def _handle(self, message: Message) -> None:
        self._carry_out(self._coordinator.handle(message, self._clock.now()))

    def _housekeep(self, now: float) -> None:
        self._next_poll = now + HOUSEKEEPING
        self._journal.check_fenced()
        self._gateway.poll_changes()
        self._retention.snapshot_if_due(now)
        self._note_running(now)
        self._note_counting(now)
        self._request_handler.poll(now, is_running=self._running_since is not None)
        self._take_deadlines(now)
        self._overviews.write_if_due(now, self._overview)

    def _overview(self) -> JobOverview:
        next_checkpoint = self._coordinator.next_checkpoint_at
        driver = DriverFacts(
            self._live,
            self._clock.now(),
            {subtask: status.value for subtask, status in self._coordinator.subtask_statuses().items()},
            next_checkpoint_at=None if next_checkpoint is None else self._clock.to_wall(next_checkpoint),
            stopping=self._coordinator.stopping,
            interval=self._options.overview_interval,
            options=self._options.shown_changes(),
            events=tuple(self._status.events),
        )
        return job_overview(self._journal.state, self._clock.wall(), driver)

    def _write_last_overview(self) -> None:
        """Write the overview of an ended run, unless a later driver has the job and writes its own."""
        with suppress(CkptError):
            if self._options.overview_interval:
                self._journal.check_fenced()
                self._overviews.close(self._overview)

    def _note_running(self, now: float) -> None:
        if self._running_since is None and self._coordinator.status is JobStatus.RUNNING:
            self._running_since = now
            self._status.running(self._journal.state)
            deadline = passed(self._options, self._clock.wall())
            if deadline is not None:
                message = f"{deadline.option} ({deadline.at.isoformat()}) is over: the run ends with what is there"
                self._status.report(LineKind.WARNING, message, self._journal.state)

    def _note_counting(self, now: float) -> None:
        """Count the run's seconds from its first published batch, or, with workers, from when all subtasks first ran.

        The count also begins if nothing is published within the checkpoint timeout. A time by another host's clock is
        limited to ``now``.
        """
        if self._running_since is None or self._counting_since is not None:
            return
        running_since = self._journal.state.running_since
        if running_since is not None:
            self._counting_since = min(now, running_since)
        elif self._is_reading() or now - self._running_since >= self._options.checkpoint_timeout:
            self._counting_since = now

    def _is_reading(self) -> bool:
        """Return True in batch mode, if a batch is published, or if all unfinished queries found nothing to read."""
        state = self._journal.state
        if self._has_published or state.created is None or state.created.mode == "batch":
            return True
        return self._reading | state.finished | state.end_of_data >= set(state.graph().subtasks)

    def _take_deadlines(self, now: float) -> None:
        if self._running_since is None or self._coordinator.stopping:
            return
        ending = due(self._options, elapsed=self._seconds_run(now), now=self._clock.wall())
        if ending is not None and not (ending == "drain" and self._coordinator.draining):  # a stop overrides a drain
            self._handle(StopRequest(exit_if_it_fails=True) if ending == "stop" else DrainRequest())

    def _seconds_run(self, now: float) -> float:
        earlier = 0.0 if self._job.upgraded is None else self._job.upgraded.ran
        return earlier + (0.0 if self._counting_since is None else now - self._counting_since)

    def _note_failed(self, report: SubtaskFailed) -> None:
        """Report the first failure in full, and later failures in one line, because the first failure caused them."""
        if not self._coordinator.has_effect(report):
            self._log_further_failure(report)
            return
        if report.traceback is not None:
            message = f"{report.subtask} failed with {report.error}"
            self._status.report(LineKind.SUBTASK_FAILED, message, self._journal.state, traceback=report.traceback)
        log.error("subtask %s failed\n%s", report.subtask, report.stack_trace or report.cause)

    def _log_late_failures(self) -> None:
        while not self._inbox.empty():
            message = self._inbox.get_nowait()
            if isinstance(message, SubtaskFailed):
                self._log_further_failure(message)

    def _log_further_failure(self, report: SubtaskFailed) -> None:
        log.error("subtask %s failed too: %s", report.subtask, report.cause)

    # ---- effects

    def _carry_out(self, effects: list[Effect]) -> None:
        for are_commands, group in itertools.groupby(effects, lambda effect: isinstance(effect, _COMMANDS)):
            if are_commands:
                self._gateway.send(*cast(Iterable[Command], group))
                continue
            for effect in group:
                if isinstance(effect, Append):
                    self._append(effect.event)
                else:
                    _EFFECTS[type(effect)](self, effect)

    def _append(self, event: Event) -> None:
        """Write ``event`` to the journal and report it, with its steady times converted to this host's wall clock."""
        match event:
            case CheckpointCompleted():
                event = replace(
                    event, triggered_at=self._clock.to_wall(event.triggered_at), at=self._clock.to_wall(event.at)
                )
            case CheckpointTriggered() | CheckpointAborted() | CheckpointReleased() | SinkReleased():
                event = replace(event, at=self._clock.to_wall(event.at))
            case StatusChanged():
                self._request_handler.answer_upgrade(event)
        self._journal.write(event)
        if isinstance(event, RequestAnswered):
            self._request_handler.answered(event)
        self._status.event(event, self._journal.state)

    def _release(self, effect: Release) -> None:
        state = self._journal.state
        self._releaser.release(effect.sink, state.checkpoints[effect.checkpoint], state.released_by_sink())

    def _notify_completed(self, effect: NotifyCompleted) -> None:
        self._retention.completed(effect.checkpoint)

    def _notice(self, effect: Notice) -> None:
        kind = LineKind.WARNING if effect.is_warning else LineKind.RECONFIGURED
        details = {} if effect.traceback is None else {"traceback": effect.traceback}
        self._status.report(kind, effect.message, self._journal.state, **details)

    def _warn(self, message: str) -> None:
        self._status.report(LineKind.WARNING, message, self._journal.state)

    def _end(self, effect: EndJob) -> None:
        self._outcome = Outcome(effect.status, effect.cause, effect.upgrade, self._seconds_run(self._clock.now()))


_EFFECTS: dict[type, Callable[[JobMaster, Any], None]] = {
    Release: JobMaster._release,
    TryUpgrade: lambda master, effect: master._request_handler.try_upgrade(effect),
    NotifyCompleted: JobMaster._notify_completed,
    EndJob: JobMaster._end,
    Notice: JobMaster._notice,
}
