"""The checkpoint coordinator: the decisions of the JobMaster, without threads, clocks, files or Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_ckpt.coordinator.admission import Admission
from airflow_provider_ckpt.coordinator.checkpoint_decider import CheckpointDecider
from airflow_provider_ckpt.coordinator.checkpoints.pending_checkpoint import PendingCheckpoint
from airflow_provider_ckpt.coordinator.controller_loop import ControllerLoop
from airflow_provider_ckpt.coordinator.coordinator_state import make_state
from airflow_provider_ckpt.coordinator.errors import CutViolatedError
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect, Notice
from airflow_provider_ckpt.coordinator.protocol.messages import (
    Message,
    ReleaseDone,
    ReleaseFailed,
    ReleaseHeld,
    RunAbandoned,
    UpgradeTried,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    BatchPublished,
    FileAwaited,
    FilesChanged,
    InputLeftUnread,
    QueryMeasured,
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    SinkAwaited,
    SourceAtEnd,
    SourceLogGrown,
    SplitsCompleted,
    SplitsReturned,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.reconfigurer import Reconfigurer
from airflow_provider_ckpt.coordinator.release_coordinator import ReleaseCoordinator, waiting_message
from airflow_provider_ckpt.coordinator.state.pauses import Pause
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState, SubtaskStatus
from airflow_provider_ckpt.coordinator.subtask_lifecycle import SubtaskLifecycle
from airflow_provider_ckpt.coordinator.upgrader import Upgrader
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.journal.events import SourceFilesChanged
from airflow_provider_ckpt.model.file_status import awaited
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import (
    DrainRequest,
    ReconfigureRequest,
    StopRequest,
    UpgradeRequest,
)
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome

_NO_SAVEPOINT = (
    "a job in batch mode takes no savepoint before its end; vertices that are at their end of data are not run "
    "again by the next run"
)


class Coordinator:
    """The state machine that turns messages into effects.

    Call :meth:`start` first, :meth:`handle` for each message, and :meth:`tick` at :meth:`next_deadline` at the latest.
    Times are epoch seconds of a clock that never goes back.

    1. At most one checkpoint is pending. Its id is in the journal before its first barrier (R10).
    2. ``Append(CheckpointCompleted)`` is the commit point. The ``Release`` of the checkpoint comes later.
    3. A sink's releases are strictly ascending, one at a time. Sinks do not wait for each other.
    4. A subtask with sinks closes after every sink has *released* a checkpoint that covers the subtask's end of data.
    5. The job reaches a final status when every completed checkpoint is released. Exceptions: a release has failed, or
       the job is being stopped and a gate holds the release.
    6. STOPPED means that the savepoint of a stop is completed and released, apart from the output that gates hold.
       Every accepted request gets its outcome before the job ends, but the new version answers an upgrade request.
    7. After ``EndJob`` every message is dropped.
    """

    def __init__(
        self,
        graph: JobGraph,
        options: CheckpointOptions,
        *,
        epoch: int,
        restored: RestoredState,
        attempts: Mapping[SubtaskId, AttemptId],
        slots: int = 1,
        has_workers: bool = False,
        controllers: Sequence[Controller] = (),
    ) -> None:
        """Create the coordinator of one epoch.

        Args:
            restored: the state of earlier epochs, replayed from the journal after ``epoch`` was claimed.
            attempts: unfinished subtask → its first attempt in this epoch.
            slots: maximum number of subtasks that run at a time in BATCH mode.
            has_workers: True if workers run the subtasks. A worker begins an attempt after that in ``attempts``, and
                reports SubtaskOpened. Without this report, the run ends after the checkpoint timeout. In BATCH mode the
                timeout counts only while no subtask runs.
        """
        self._state = make_state(graph, options, epoch, restored, attempts, slots, has_workers=has_workers)
        self._job = JobLifecycle(self._state)
        self._decider = CheckpointDecider(self._state, self._job)
        self._release_coordinator = ReleaseCoordinator(self._state, self._job)
        self._failover = Failover(self._state, self._job, self._decider, has_workers=has_workers)
        self._lifecycle = SubtaskLifecycle(self._state, restored.end_of_data)
        self._reconfigurer = Reconfigurer(self._state, self._job, self._failover, self._lifecycle)
        self._upgrader = Upgrader(self._state, self._job)
        self._controller_loop = ControllerLoop(
            self._state, self._job, self._reconfigurer, controllers, restored.reconfigured_at
        )
        self._admission = Admission(epoch, self._state)
        self._dropped: Counter[str] = Counter()
        self._phases = (
            self._expire,
            self._release,
            self._change,
            self._finish,
            self._proceed,
            self._observe,
        )
        """The phases of every step, in order. The docstring of each phase explains its place."""

    # -- the entry points

    def start(self, now: float) -> list[Effect]:
        """Return the first effects: releases of completed checkpoints, and commands to deploy unfinished subtasks."""
        for subtask in self._state.subtasks.in_status(SubtaskStatus.RESTARTING):
            self._failover.expect_attempt(subtask, now)
        self._reconfigurer.start(now)
        self._controller_loop.start(now)
        return self._advance(now)

    def handle(self, message: Message, now: float) -> list[Effect]:
        refusal = self._refuse(message)
        if refusal is not None:
            self._dropped[refusal] += 1
            return []
        try:
            self._dispatch(message, now)
        except CutViolatedError as error:
            self._state.cycle.abort(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, now)
            self._job.end(JobStatus.FAILED, str(error))
        return self._advance(now)

    def tick(self, now: float) -> list[Effect]:
        """Return the effects of all deadlines that have passed at ``now``. Calls before a deadline do no harm."""
        return [] if self._job.is_over else self._advance(now)

    def next_deadline(self, now: float) -> float | None:
        """Return when :meth:`tick` must be called if no message comes, or None if nothing happens without a message."""
        components = (self._decider, self._failover, self._reconfigurer, self._upgrader, self._controller_loop)
        deadlines = [component.next_deadline for component in components]
        moments = [] if self._job.is_over else [deadline() for deadline in deadlines]
        return min((max(now, moment) for moment in moments if moment is not None), default=None)

    # -- for the JobMaster

    @property
    def status(self) -> JobStatus:
        return self._job.status

    @property
    def is_changing(self) -> bool:
        return self._state.is_changing

    @property
    def stopping(self) -> bool:
        return self._state.requests.stop is not None

    @property
    def upgrading(self) -> str | None:
        """Return the name of the upgrade request in progress, or None."""
        return self._state.requests.upgrade

    @property
    def draining(self) -> bool:
        return self._state.requests.draining

    def has_effect(self, failure: SubtaskFailed) -> bool:
        """Return whether a failure will restart its subtask or end the run. Call this before :meth:`handle`.

        The failure has no effect if its attempt is over (R22), or if the end of the run is decided.
        """
        return not self._job.is_ending and self._refuse(failure) is None

    # -- for tests and the simulation, which watch this state besides the effects

    @property
    def is_over(self) -> bool:
        return self._job.is_over

    @property
    def pending(self) -> PendingCheckpoint | None:
        return self._state.cycle.pending

    @property
    def last_triggered(self) -> int:
        return self._state.cycle.last_triggered

    @property
    def last_completed(self) -> int:
        return self._state.cycle.last_completed

    @property
    def last_released(self) -> int:
        return self._state.releases.last_released

    @property
    def releasing(self) -> Mapping[str, int]:
        """Return the releases in progress: sink → checkpoint."""
        return self._state.releases.under_way

    @property
    def next_checkpoint_at(self) -> float | None:
        """Return the earliest time of the next trigger; None if no checkpoint can be triggered now."""
        return self._decider.trigger_at()

    @property
    def failures_in_a_row(self) -> int:
        return self._state.cycle.failures.in_a_row

    @property
    def pauses(self) -> tuple[Pause[Any], ...]:
        """Return the pauses in progress. No subtask resumes before all subtasks of the round are paused."""
        return self._state.pauses.current

    @property
    def dropped_messages(self) -> Mapping[str, int]:
        """Return reason → number of dropped messages. Reasons: see :class:`Admission`; ``over`` after the job's end."""
        return dict(self._dropped)

    def subtask_statuses(self) -> Mapping[SubtaskId, SubtaskStatus]:
        return self._state.subtasks.statuses()

    # -- handling of each message

    def _refuse(self, message: Message) -> str | None:
        return "over" if self._job.is_over else self._admission.refuse(message)

    def _dispatch(self, message: Message, now: float) -> None:
        match message:
            case SubtaskOpened():
                self._decider.failed(CheckpointFailureReason.JOB_FAILOVER_REGION, now)
                self._failover.opened(message.subtask)
                self._lifecycle.opened(message, now)
            case SubtaskRunning():
                self._lifecycle.running(message, now)
            case SubtaskAtEndOfData():
                self._lifecycle.at_end_of_data(message, now)
            case SubtaskDone():
                self._decider.completed(self._lifecycle.done(message, now))
            case SubtaskFailed():
                self._failover.failed(message, now)
            case BarrierAcknowledged():
                completed = self._state.cycle.acknowledged(message.subtask, message.snapshot, now)
                self._decider.completed(completed)
            case BarrierDeclined():
                self._decider.failed(CheckpointFailureReason[message.reason], now, message.detail)
            case SourceAtEnd():
                self._lifecycle.source_at_end(message, now)
            case SubtaskPaused():
                self._lifecycle.paused(message, now)
            case ReconfigurationPrepared():
                self._reconfigurer.prepared(message, now)
            case ReconfigurationUnfit():
                self._reconfigurer.unfit(message, now)
            case SplitsCompleted():
                self._lifecycle.splits_completed(message, now)
            case SplitsReturned():
                self._lifecycle.splits_returned(message)
            case QueryMeasured():
                self._controller_loop.measured(message)
            case BatchPublished():
                self._state.cycle.note_published(message.subtask, now)
            case SourceLogGrown():
                self._state.replacements.request(message.subtask)
            case FilesChanged():
                event = SourceFilesChanged(message.uid, message.files, message.count, message.unread, now)
                self._state.out.append(Append(event))
            case FileAwaited():
                text = awaited(message.uid, message.file, message.seconds)
                self._state.out.append(Notice(text, is_warning=True))
            case InputLeftUnread():
                self._state.out.append(Notice(message.what, is_warning=True))
            case SinkAwaited():
                text = waiting_message(message.sink, message.seconds, message.cause)
                self._state.out.append(Notice(text, is_warning=True))
            case ReleaseDone():
                self._count_unawaited(self._release_coordinator.done(message, now))
            case ReleaseFailed():
                self._count_unawaited(self._release_coordinator.failed(message, now))
            case ReleaseHeld():
                self._count_unawaited(self._release_coordinator.held(message, now))
            case StopRequest():
                self._stop(message, now)
            case DrainRequest():
                outcome = self._state.requests.take_drain(message)
                self._state.answer(message.name, message.kind, outcome, now)
            case ReconfigureRequest():
                self._reconfigurer.requested(message, now)
            case UpgradeRequest():
                self._upgrader.requested(message, now)
            case UpgradeTried():
                self._upgrader.tried(message, now)
            case RunAbandoned():
                self._state.cycle.abort(CheckpointFailureReason.JOB_FAILURE, now)
                self._job.end(JobStatus.RESTARTING, message.cause)

    def _count_unawaited(self, was_awaited: bool) -> None:
        if not was_awaited:
            self._dropped["checkpoint"] += 1

    def _stop(self, request: StopRequest, now: float) -> None:
        no_savepoint = self._takes_no_savepoint
        if no_savepoint and not request.exit_if_it_fails:
            outcome = RequestOutcome.refused(_NO_SAVEPOINT)
        else:
            outcome = self._state.requests.take_stop(request, now + self._state.options.timeout)
        self._state.answer(request.name, request.kind, outcome, now)
        if no_savepoint and request.exit_if_it_fails:
            self._job.end(JobStatus.RESTARTING, _NO_SAVEPOINT)

    @property
    def _takes_no_savepoint(self) -> bool:
        """Return True in BATCH mode until all subtasks have ended, because its only checkpoint is taken at the end."""
        return self._state.options.is_batch and not self._state.subtasks.all_ended

    # -- the phases of a step, in their order

    def _advance(self, now: float) -> list[Effect]:
        """Run all phases. Return their effects in the order in which the phases requested them."""
        for phase in self._phases:
            phase(now)
        effects = list(self._state.out)
        self._state.out.clear()
        return effects

    def _expire(self, now: float) -> None:
        """Act on deadlines that have passed. This phase is first, because later phases must not act on late work."""
        self._decider.expire(now)
        self._failover.expire(now)

    def _release(self, now: float) -> None:
        """Note that the job runs, and release completed checkpoints.

        This phase follows the deadlines, because a job whose end is decided does not become RUNNING. It precedes the
        changes, because controllers are polled only while the job is RUNNING.
        """
        self._job.note_running(now)
        self._release_coordinator.advance(now)

    def _change(self, now: float) -> None:
        """Poll the controllers, and advance a reconfiguration, an upgrade and planned restarts.

        Controllers come first, because a change that they request begins in the same step. Planned restarts come last,
        because every requested change has precedence.
        """
        self._controller_loop.advance(now)
        self._reconfigurer.advance(now)
        self._upgrader.advance(now)
        self._failover.restart_paused(now)

    def _finish(self, now: float) -> None:
        """Close subtasks whose final checkpoint is released. End the job if it has no more work.

        This phase follows the releases, because they allow a subtask to close. It follows the changes, because new
        subtasks postpone the end, and because nothing may be journaled after the end. During a stop, subtasks are
        closed only if the work of all subtasks is done. Otherwise the next run closes them.
        """
        if self._state.requests.stop is None or self._job.work_is_done:
            self._lifecycle.finish_released()
        self._job.end_if_done(now)

    def _proceed(self, now: float) -> None:
        """Deploy subtasks, assign splits, pause subtasks, trigger the next checkpoint, and drain.

        This phase follows the changes, because they add plans and readers. It follows the decision about the end,
        because nothing new may begin after that decision.

        A pause and a checkpoint exclude each other. The pause comes first, because checkpoints that take longer than
        their interval would delay the pause for ever. A checkpoint comes first if a subtask already waits for it.
        """
        if self._job.is_ending:
            return
        self._lifecycle.deploy()
        self._lifecycle.assign_splits(now)
        if not self._state.cycle.is_wanted:
            self._lifecycle.pause_if_quiet()
        self._decider.trigger_if_due(now)
        self._lifecycle.drain()
        self._lifecycle.pause_if_quiet()

    def _observe(self, now: float) -> None:
        """Note which subtasks run, for later deadlines. This phase is last, because earlier phases change which run."""
        self._failover.note_running()
