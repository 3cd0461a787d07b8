"""The life of a subtask, from its first report to its end."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_cycle import Completed
from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Append
from airflow_provider_ckpt.coordinator.protocol.reports import (
    SourceAtEnd,
    SplitsCompleted,
    SplitsReturned,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.state.pauses import Resume
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.events import SourceEnded, SubtaskEndOfData, SubtaskFinished
from airflow_provider_ckpt.model.ids import SubtaskId


class SubtaskLifecycle:
    """The reactions to reports of subtasks, and the commands to them other than barriers."""

    def __init__(self, parts: CoordinatorState, known_ends_of_data: Iterable[SubtaskId]) -> None:
        """Create the lifecycle. ``known_ends_of_data`` holds the subtasks whose end of data is in the journal."""
        self._parts = parts
        self._known_ends_of_data = set(known_ends_of_data)

    # -- reports

    def opened(self, message: SubtaskOpened, now: float) -> None:
        """Deploy the next attempt of a subtask like a first one, with the current plan.

        The attempt knows what its log contains, but no command that the previous attempt got. Those commands are sent
        again when it runs.
        """
        parts, subtask = self._parts, message.subtask
        parts.subtasks.begin(subtask, message.attempt)
        parts.subtasks.set_status(subtask, SubtaskStatus.CREATED)
        parts.scheduler.requeue(subtask)
        self.resume(parts.pauses.begin_again(subtask, now))
        parts.requests.begin_again(subtask)
        parts.finals.forget(subtask)
        parts.splits.opened(subtask)

    def running(self, message: SubtaskRunning, now: float) -> None:
        self.resume(self._parts.pauses.over(message.subtask, now))
        self._parts.reconfiguring.runs(message.subtask, now)
        self._parts.subtasks.set_status(message.subtask, SubtaskStatus.RUNNING)
        self._parts.splits.began(message.subtask)

    def at_end_of_data(self, message: SubtaskAtEndOfData, now: float) -> None:
        parts, subtask = self._parts, message.subtask
        if parts.subtasks.has_ended(subtask):
            return
        parts.subtasks.set_status(subtask, SubtaskStatus.AT_END_OF_DATA)
        parts.splits.began(subtask)
        self.resume(parts.pauses.over(subtask, now))
        self._note_ended(subtask, parts.sources.subtask_ended(subtask), now)
        news = subtask not in self._known_ends_of_data
        if news:
            self._known_ends_of_data.add(subtask)
            parts.out.append(Append(SubtaskEndOfData(subtask, str(message.attempt), now)))
        if parts.finals.at_end_of_data(subtask, news):
            parts.cycle.want_for((subtask, None))

    def done(self, message: SubtaskDone, now: float) -> Completed | None:
        """Record that a subtask has closed. A checkpoint may complete with it.

        Raises CutViolatedError.
        """
        parts, subtask = self._parts, message.subtask
        parts.subtasks.set_status(subtask, SubtaskStatus.FINISHED)
        self.resume(parts.pauses.over(subtask, now))
        parts.sources.subtask_ended(subtask)
        parts.finals.forget(subtask)
        parts.out.append(Append(SubtaskFinished(subtask, str(message.attempt), now)))
        return parts.cycle.finished(subtask, now)

    def source_at_end(self, message: SourceAtEnd, now: float) -> None:
        news = self._parts.sources.report(message.subtask, message.uid, message.batch_id, message.droppable)
        self._note_ended(message.subtask, news, now)

    def _note_ended(self, subtask: SubtaskId, news: list[tuple[str, int]], now: float) -> None:
        for uid, batch_id in news:
            self._parts.out.append(Append(SourceEnded(subtask.vertex, uid, batch_id, now)))
            self._parts.cycle.want_for((subtask, uid))

    def splits_completed(self, message: SplitsCompleted, now: float) -> None:
        self._parts.splits.reads_together(message.subtask, message.together)
        done = self._parts.splits.completed(message.subtask, message.splits, message.position, now)
        if done is not None:
            self._parts.out.append(Append(done))

    def splits_returned(self, message: SplitsReturned) -> None:
        self._parts.splits.reads_together(message.subtask, message.together)
        self._parts.splits.returned(message.subtask, message.splits)

    def paused(self, message: SubtaskPaused, now: float) -> None:
        self._parts.reconfiguring.paused_at(message.subtask, now)
        self.resume(self._parts.pauses.paused_at(message.subtask, message.batch_id, now))

    def resume(self, on: Resume) -> None:
        """Journal the events of a pause and then resume its subtasks, unless they wait for their next attempts."""
        parts = self._parts
        parts.out.extend(map(Append, on.events))
        for subtask in on.subtasks:
            if parts.reconfiguring.awaits_next_attempt(subtask) or parts.replacements.awaits_next_attempt(subtask):
                continue
            parts.send(ResumeSubtask(*parts.task_id(subtask), parts.pauses.plan(subtask)))

    # -- commands

    def deploy(self) -> None:
        parts = self._parts
        for subtask in parts.scheduler.due():
            parts.subtasks.set_status(subtask, SubtaskStatus.STARTING)
            parts.send(DeploySubtask(*parts.task_id(subtask), parts.pauses.plan(subtask)))

    def assign_splits(self, now: float) -> None:
        """Assign splits. The journal has each assignment before the subtask gets it (R14)."""
        parts = self._parts
        if not len(parts.splits):
            return
        for assignment, ids in parts.splits.due(parts.subtasks.in_status(SubtaskStatus.RUNNING)):
            task_id = parts.task_id(assignment.subtask)
            if assignment.splits:
                parts.out.append(Append(parts.splits.assigned_event(assignment, str(task_id.attempt), now)))
            parts.send(AssignSplits(*task_id, ids, assignment.is_last))

    def finish_released(self) -> None:
        """Close the subtasks whose final checkpoint is released."""
        for subtask in self._parts.finals.may_finish(self._parts.releases.last_released):
            self._parts.subtasks.set_status(subtask, SubtaskStatus.FINISHING)
            self._parts.send(FinishSubtask(*self._parts.task_id(subtask)))

    def drain(self) -> None:
        requests = self._parts.requests
        if not requests.draining or requests.stop is not None:
            return
        for subtask in self._parts.finals.unbounded:
            running = self._parts.subtasks.status(subtask) is SubtaskStatus.RUNNING
            if running and requests.drain_once(subtask):
                self._parts.send(DrainSubtask(*self._parts.task_id(subtask), requests.drains_at_once))

    def pause_if_quiet(self) -> None:
        """Begin the next round of pauses, if no checkpoint is pending and no other round is in progress (R20).

        During a drain no source is left out any longer. A change of the graph that is in the journal continues.
        """
        pauses, requests, rescaling = self._parts.pauses, self._parts.requests, self._parts.rescaling
        busy = self._parts.cycle.pending is not None or bool(pauses.current)
        if busy or requests.stop is not None or (requests.draining and rescaling.current is None):
            return
        for wanted, changes in pauses.wanted():
            if all(self._parts.subtasks.status(one.subtask) is SubtaskStatus.RUNNING for one in wanted):
                pauses.begin(wanted, changes)
                for pause in wanted:
                    self._parts.subtasks.set_status(pause.subtask, SubtaskStatus.PAUSED)
                    self._parts.send(PauseSubtask(*self._parts.task_id(pause.subtask), pause.reason))
                return
