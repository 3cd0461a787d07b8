"""The checkpoint coordinator: the JobMaster's part, without threads, clocks, files or Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from airflow_provider_ckpt.coordinator.admission import Admission
from airflow_provider_ckpt.coordinator.checkpointing import CheckpointCycle, Completed
from airflow_provider_ckpt.coordinator.failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.finishing import FinalCheckpoints
from airflow_provider_ckpt.coordinator.messages import (
    Append,
    BarrierAcknowledged,
    BarrierDeclined,
    DrainSubtask,
    DropSource,
    Effect,
    EndJob,
    FinishSubtask,
    Message,
    Release,
    ReleaseDone,
    ReleaseFailed,
    ResumeWithout,
    SourceAtEnd,
    StoppedAtBoundary,
    StopRequested,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.options import MAX_UNRELEASED, CheckpointOptions
from airflow_provider_ckpt.coordinator.pending import PendingCheckpoint
from airflow_provider_ckpt.coordinator.release import MAX_TRIES, ReleaseQueue
from airflow_provider_ckpt.coordinator.requests import Ending, FinalStatus, Requests
from airflow_provider_ckpt.coordinator.restarts import SourceDrops
from airflow_provider_ckpt.coordinator.state import Restored, SubtaskStatus, SubtaskTable
from airflow_provider_ckpt.errors import CutViolatedError
from airflow_provider_ckpt.job.graph import ExecutionGraph
from airflow_provider_ckpt.journal.events import (
    CheckpointReleased,
    RequestAnswered,
    SourceDropped,
    SourceEnded,
    StatusChanged,
    SubtaskEndOfData,
    SubtaskFinished,
)


class Coordinator:
    """Messages in, effects out. Call :meth:`start` once, :meth:`handle` per message, and :meth:`tick`
    at :meth:`next_deadline` at the latest. Times are epoch seconds and never go back.

    1. At most one checkpoint is pending; its id is in the journal before its first barrier (R10).
    2. ``Append(CheckpointCompleted)`` is the commit point; only then a ``Release`` of it may follow.
    3. Releases are strictly ascending, one at a time; after a crash the lowest unreleased comes first.
    4. A subtask with sinks closes after a checkpoint that covers its end of data was *released*.
    5. The job reaches no final status while completed > released, unless the release itself failed.
    6. After ``EndJob`` every message is dropped.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        options: CheckpointOptions,
        *,
        epoch: int,
        restored: Restored,
        now: float,
    ) -> None:
        """``restored``: what was replayed after ``epoch`` was claimed. ``now`` is the time of the claim."""
        self._graph, self._options, self._epoch = graph, options, epoch
        self._out: list[Effect] = []
        self._subtasks = SubtaskTable(graph, restored)
        self._drops = SourceDrops(graph, restored.ended, restored.dropped)
        self._requests = Requests(restored.draining)
        self._finals = FinalCheckpoints(graph, restored)
        self._releases = ReleaseQueue(restored.last_released, _unreleased(restored))
        self._cycle = CheckpointCycle(graph, options, epoch, restored, self._subtasks, self._drops, self._out)
        self._admission = Admission(epoch, self._subtasks, self._drops, self._requests, self._cycle)
        self._told_end_of_data = set(restored.end_of_data)
        self._status = "CREATED"
        self._ending: Ending | None = None
        self._closed = False
        self._dropped: Counter[str] = Counter()

    # -- the three entry points, and the clock

    def start(self, now: float) -> list[Effect]:
        """Rolls completed checkpoints forward. The runtime starts what is not finished meanwhile."""
        return self._advance(now)

    def handle(self, message: Message, now: float) -> list[Effect]:
        refusal = "over" if self._closed else self._admission.refuse(message)
        if refusal is not None:
            self._dropped[refusal] += 1
            return []
        try:
            self._take(message, now)
        except CutViolatedError as error:
            self._cycle.abort(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, now)
            self._end("FAILED", str(error))
        return self._advance(now)

    def tick(self, now: float) -> list[Effect]:
        """Does what is due. Calling it early, late or twice does no harm."""
        return [] if self._closed else self._advance(now)

    def next_deadline(self, now: float) -> float | None:
        """When :meth:`tick` must be called next if no message comes; None: a message has to come first."""
        if self._closed:
            return None
        stop = self._requests.stop
        moments = [self._cycle.expires, self._releases.next_try]
        moments.append(stop.deadline if stop is not None and self._waits_for_savepoint() else None)
        moments.append(self._trigger_at())
        known = [moment for moment in moments if moment is not None]
        return max(now, min(known)) if known else None

    # -- for display and tests

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def status(self) -> str:
        return self._status

    @property
    def is_over(self) -> bool:
        return self._closed

    @property
    def pending(self) -> PendingCheckpoint | None:
        return self._cycle.pending

    @property
    def last_triggered(self) -> int:
        return self._cycle.last_triggered

    @property
    def last_completed(self) -> int:
        return self._cycle.last_completed

    @property
    def last_released(self) -> int:
        return self._releases.last_released

    @property
    def releasing(self) -> int | None:
        return self._releases.under_way

    @property
    def failures_in_a_row(self) -> int:
        return self._cycle.failures.in_a_row

    @property
    def restart_in_progress(self) -> tuple[str, str] | None:
        """(subtask, uid of the source that is being dropped)."""
        return self._drops.current

    @property
    def stopping(self) -> bool:
        return self._requests.stop is not None

    @property
    def draining(self) -> bool:
        return self._requests.draining

    @property
    def dropped_messages(self) -> Mapping[str, int]:
        """Messages that were not taken, by reason: epoch, attempt, subtask, checkpoint, stale, over."""
        return dict(self._dropped)

    def subtask_statuses(self) -> Mapping[str, SubtaskStatus]:
        return self._subtasks.statuses()

    # -- what each does

    def _take(self, message: Message, now: float) -> None:
        match message:
            case SubtaskRunning():
                self._running(message)
            case SubtaskAtEndOfData():
                self._at_end_of_data(message, now)
            case SubtaskDone():
                self._done(message, now)
            case SubtaskFailed():
                self._failed(message, now)
            case BarrierAcknowledged():
                self._completed(self._cycle.acknowledged(message.subtask, message.snapshot, now))
            case BarrierDeclined():
                self._abort(CheckpointFailureReason.of(message.reason), now)
            case SourceAtEnd():
                self._source_at_end(message, now)
            case StoppedAtBoundary():
                self._stopped_at_boundary(message, now)
            case ReleaseDone():
                self._release_done(message, now)
            case ReleaseFailed():
                self._release_failed(message, now)
            case StopRequested():
                self._requested(message, now)

    def _running(self, message: SubtaskRunning) -> None:
        subtask = message.subtask
        first = self._subtasks.status(subtask) is SubtaskStatus.NEVER_STARTED
        new_attempt = self._subtasks.begin(subtask, message.attempt)
        if self._drops.current is not None and self._drops.current[0] == subtask:
            self._drops.finish()
        self._subtasks.set_status(subtask, SubtaskStatus.RUNNING)
        if first or new_attempt:
            self._cycle.started(subtask, again=not first)

    def _at_end_of_data(self, message: SubtaskAtEndOfData, now: float) -> None:
        subtask = message.subtask
        if self._subtasks.has_ended(subtask):
            return
        first = self._subtasks.status(subtask) is SubtaskStatus.NEVER_STARTED
        self._subtasks.set_status(subtask, SubtaskStatus.AT_END_OF_DATA)
        self._note_ended(subtask, self._drops.subtask_ended(subtask), now)
        news = subtask not in self._told_end_of_data
        if news:
            self._told_end_of_data.add(subtask)
            self._out.append(Append(SubtaskEndOfData(subtask, message.attempt, now)))
        if self._finals.at_end_of_data(subtask, news):
            self._cycle.want_for((subtask, None))
        if first:
            self._cycle.started(subtask, again=False)

    def _done(self, message: SubtaskDone, now: float) -> None:
        self._drops.subtask_ended(message.subtask)
        self._finals.forget(message.subtask)
        self._subtasks.set_status(message.subtask, SubtaskStatus.FINISHED)
        self._out.append(Append(SubtaskFinished(message.subtask, message.attempt, now)))
        self._completed(self._cycle.finished(message.subtask, now))

    def _failed(self, message: SubtaskFailed, now: float) -> None:
        self._cycle.abort(CheckpointFailureReason.JOB_FAILURE, now)
        self._end("FAILED" if message.terminal else "RESTARTING", f"{message.subtask}: {message.cause}")

    def _completed(self, completed: Completed | None) -> None:
        if completed is None:
            return
        self._releases.completed(completed.checkpoint)
        self._finals.completed(completed.checkpoint, completed.covered)
        if completed.kind in ("savepoint", "final") and self._requests.stop is not None:
            self._requests.stop.savepoint = completed.checkpoint

    def _source_at_end(self, message: SourceAtEnd, now: float) -> None:
        news = self._drops.report(message.subtask, message.uid, message.batch_id, message.droppable)
        self._note_ended(message.subtask, news, now)

    def _note_ended(self, subtask: str, news: list[tuple[str, int]], now: float) -> None:
        for uid, batch_id in news:
            self._out.append(Append(SourceEnded(self._subtasks.vertex(subtask), uid, batch_id, now)))
            self._cycle.want_for((subtask, uid))

    def _stopped_at_boundary(self, message: StoppedAtBoundary, now: float) -> None:
        vertex = self._subtasks.vertex(message.subtask)
        if self._drops.stopped(vertex, message.uid):
            self._out.append(Append(SourceDropped(vertex, message.uid, message.batch_id, now)))
        self._out.append(ResumeWithout(message.subtask, message.uid))

    def _release_done(self, message: ReleaseDone, now: float) -> None:
        if self._releases.done(message.checkpoint):
            self._out.append(Append(CheckpointReleased(message.checkpoint, now, message.sinks)))
        else:
            self._dropped["checkpoint"] += 1

    def _release_failed(self, message: ReleaseFailed, now: float) -> None:
        if not self._releases.failed(message.checkpoint, now):
            self._dropped["checkpoint"] += 1
        elif message.terminal or self._releases.exhausted:
            times = "" if message.terminal else f" {MAX_TRIES} times"
            cause = f"release of checkpoint {message.checkpoint} failed{times}: {message.cause}"
            self._cycle.abort(CheckpointFailureReason.JOB_STOPPED, now)
            self._end("FAILED" if message.terminal else "RESTARTING", cause, at_once=True)

    def _requested(self, message: StopRequested, now: float) -> None:
        outcome = self._requests.take(message.mode, now + self._options.timeout)
        if message.request is not None:
            self._out.append(Append(RequestAnswered(message.request, message.mode, outcome, now)))

    # -- what follows from where things stand

    def _advance(self, now: float) -> list[Effect]:
        self._expire(now)
        self._note_running(now)
        self._ask_release(now)
        self._finish_subtasks()
        self._decide_end(now)
        if self._ending is None:
            if not self._cycle.wanted:
                self._drop_if_quiet()  # else checkpoints longer than their interval would starve it
            self._trigger_if_due(now)
            self._drain_subtasks()
            self._drop_if_quiet()
        effects = list(self._out)
        self._out.clear()
        return effects

    def _expire(self, now: float) -> None:
        expires = self._cycle.expires
        if expires is not None and now >= expires:
            self._abort(CheckpointFailureReason.CHECKPOINT_EXPIRED, now)
        stop = self._requests.stop
        if stop is not None and self._waits_for_savepoint() and now >= stop.deadline:
            self._cycle.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED, now)
            self._end("STOPPED", f"stopped without a savepoint: none within {self._options.timeout:g} s")

    def _abort(self, reason: CheckpointFailureReason, now: float) -> None:
        self._cycle.abort(reason, now)
        # A stop is not turned into a restart: the savepoint is tried again until the stop's deadline.
        if self._cycle.failures.exceeded and self._requests.stop is None:
            times, tolerable = self._cycle.failures.in_a_row, self._options.tolerable_failed
            cause = f"{times} checkpoints failed in a row ({tolerable} tolerated), last: {reason.message}"
            self._end("RESTARTING", cause)

    def _note_running(self, now: float) -> None:
        if self._status != "CREATED" or self._ending is not None or not self._subtasks.some_active:
            return
        if not self._subtasks.blocked or not self._options.periodic:
            self._status = "RUNNING"
            self._out.append(Append(StatusChanged("RUNNING", now)))
            self._cycle.start_interval(now)

    def _ask_release(self, now: float) -> None:
        checkpoint = self._releases.ask(now)
        if checkpoint is not None:
            self._out.append(Release(checkpoint))

    def _finish_subtasks(self) -> None:
        if self._requests.stop is not None and not self._work_is_done:
            return  # the savepoint is no final checkpoint: the next run finishes what can finish
        for subtask in self._finals.may_finish(self._releases.last_released):
            self._subtasks.set_status(subtask, SubtaskStatus.FINISHING)
            self._out.append(FinishSubtask(subtask))

    def _waits_for_savepoint(self) -> bool:
        stop = self._requests.stop
        if stop is None or stop.savepoint is not None or self._ending is not None:
            return False
        return not self._work_is_done

    @property
    def _work_is_done(self) -> bool:
        """Every subtask is at its end of data, and a completed checkpoint covers it."""
        return self._subtasks.all_ended and not self._cycle.wanted

    def _decide_end(self, now: float) -> None:
        nothing_open = self._cycle.pending is None and not len(self._releases)
        stop = self._requests.stop
        if self._subtasks.all_finished and nothing_open:
            self._end("FINISHED", None)
        elif stop is not None and nothing_open and not self._work_is_done:
            batch = not self._options.periodic and not self._subtasks.all_ended
            if stop.savepoint is not None or batch:
                self._end("STOPPED", None)
        ending = self._ending
        if ending is None or self._closed or (len(self._releases) and not ending.at_once):
            return
        self._closed = True
        self._status = ending.status
        self._out.append(Append(StatusChanged(ending.status, now, ending.cause)))
        self._out.append(EndJob(ending.status, ending.cause))

    def _end(self, status: FinalStatus, cause: str | None, at_once: bool = False) -> None:
        if self._ending is not None and not (at_once and not self._ending.at_once):
            return
        if status == "RESTARTING" and self._requests.stop is not None:
            status = "STOPPED"  # whoever stops the job does not want it back; the cause tells
        if cause is not None:
            cause = f"{cause}; last completed checkpoint: {self._cycle.last_completed or 'none'}"
        self._ending = Ending(status, cause, at_once)

    def _trigger_at(self) -> float | None:
        """Earliest time the next checkpoint can be triggered as things stand; None: it cannot."""
        savepoint = self._waits_for_savepoint()
        if self._ending is not None or self._cycle.refusal() is not None:
            return None
        if self._requests.stop is not None and not savepoint:
            return None
        if not savepoint and len(self._releases) >= MAX_UNRELEASED:
            return None
        return self._cycle.due(savepoint and self._options.periodic)

    def _trigger_if_due(self, now: float) -> None:
        due = self._trigger_at()
        if due is None or now < due:
            return
        if self._subtasks.all_ended:
            kind = "final"
        else:
            kind = "savepoint" if self._waits_for_savepoint() else "checkpoint"
        self._cycle.trigger(kind, now)

    def _drain_subtasks(self) -> None:
        if not self._requests.draining or self._requests.stop is not None:
            return
        for subtask in self._finals.unbounded:
            running = self._subtasks.status(subtask) is SubtaskStatus.RUNNING
            if running and self._requests.drain_once(subtask):
                self._out.append(DrainSubtask(subtask))

    def _drop_if_quiet(self) -> None:
        busy = self._cycle.pending is not None or self._drops.current is not None
        if busy or self._requests.stop is not None or self._requests.draining:
            return
        for subtask, uid in self._drops.waiting:
            if self._subtasks.status(subtask) is SubtaskStatus.RUNNING:
                self._drops.begin(subtask, uid)
                self._subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
                self._out.append(DropSource(subtask, uid))
                return


def _unreleased(restored: Restored) -> tuple[int, ...]:
    if restored.unreleased:
        return restored.unreleased
    return (restored.last_completed,) if restored.last_completed > restored.last_released else ()
