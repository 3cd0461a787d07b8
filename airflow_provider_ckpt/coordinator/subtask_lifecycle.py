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

    def __init__(self, state: CoordinatorState, known_ends_of_data: Iterable[SubtaskId]) -> None:
        """Create the lifecycle. ``known_ends_of_data``: the subtasks whose end of data is in the journal."""
        self._state = state
        self._known_ends_of_data = set(known_ends_of_data)

    # -- reports

    def opened(self, message: SubtaskOpened, now: float) -> None:
        """Queue the opened attempt for deployment. Commands to the previous attempt are cancelled or sent again."""
        state, subtask = self._state, message.subtask
        state.subtasks.begin(subtask, message.attempt)
        state.subtasks.set_status(subtask, SubtaskStatus.CREATED)
        state.scheduler.requeue(subtask)
        self.resume(state.pauses.attempt_began(subtask, now))
        state.requests.attempt_began(subtask)
        state.finals.forget(subtask)
        state.splits.opened(subtask)

    def running(self, message: SubtaskRunning, now: float) -> None:
        self.resume(self._state.pauses.end_pause(message.subtask, now))
        self._state.reconfiguration.runs(message.subtask, now)
        self._state.subtasks.set_status(message.subtask, SubtaskStatus.RUNNING)
        self._state.splits.began(message.subtask)

    def at_end_of_data(self, message: SubtaskAtEndOfData, now: float) -> None:
        state, subtask = self._state, message.subtask
        if state.subtasks.has_ended(subtask):
            return
        state.subtasks.set_status(subtask, SubtaskStatus.AT_END_OF_DATA)
        state.splits.began(subtask)
        self.resume(state.pauses.end_pause(subtask, now))
        self._note_ended(subtask, state.sources.subtask_ended(subtask), now)
        is_new = subtask not in self._known_ends_of_data
        if is_new:
            self._known_ends_of_data.add(subtask)
            state.out.append(Append(SubtaskEndOfData(subtask, str(message.attempt), now)))
        if state.finals.at_end_of_data(subtask, is_new):
            state.cycle.request_for((subtask, None))

    def done(self, message: SubtaskDone, now: float) -> Completed | None:
        """Record that a subtask has closed. Return the pending checkpoint if it completes then, else None.

        Raises CutViolatedError if the checkpoint is no consistent cut.
        """
        state, subtask = self._state, message.subtask
        state.subtasks.set_status(subtask, SubtaskStatus.FINISHED)
        self.resume(state.pauses.end_pause(subtask, now))
        state.sources.subtask_ended(subtask)
        state.finals.forget(subtask)
        state.out.append(Append(SubtaskFinished(subtask, str(message.attempt), now)))
        return state.cycle.finished(subtask, now)

    def source_at_end(self, message: SourceAtEnd, now: float) -> None:
        new_ends = self._state.sources.report(message.subtask, message.uid, message.batch_id, message.droppable)
        self._note_ended(message.subtask, new_ends, now)

    def _note_ended(self, subtask: SubtaskId, new_ends: list[tuple[str, int]], now: float) -> None:
        for uid, batch_id in new_ends:
            self._state.out.append(Append(SourceEnded(subtask.vertex, uid, batch_id, now)))
            self._state.cycle.request_for((subtask, uid))

    def splits_completed(self, message: SplitsCompleted, now: float) -> None:
        self._state.splits.reads_together(message.subtask, message.together)
        done = self._state.splits.completed(message.subtask, message.splits, message.position, now)
        if done is not None:
            self._state.out.append(Append(done))

    def splits_returned(self, message: SplitsReturned) -> None:
        self._state.splits.reads_together(message.subtask, message.together)
        self._state.splits.returned(message.subtask, message.splits)

    def paused(self, message: SubtaskPaused, now: float) -> None:
        self._state.reconfiguration.paused_at(message.subtask, now)
        self.resume(self._state.pauses.paused_at(message.subtask, message.batch_id, now))

    def resume(self, pause_end: Resume) -> None:
        """Journal the events of ``pause_end``, then resume its subtasks, unless they wait for a next attempt."""
        state = self._state
        state.out.extend(map(Append, pause_end.events))
        for subtask in pause_end.subtasks:
            if state.reconfiguration.awaits_next_attempt(subtask) or state.replacements.awaits_next_attempt(subtask):
                continue
            state.send(ResumeSubtask(*state.task_id(subtask), state.pauses.plan(subtask)))

    # -- commands

    def deploy(self) -> None:
        state = self._state
        for subtask in state.scheduler.due():
            state.subtasks.set_status(subtask, SubtaskStatus.STARTING)
            state.send(DeploySubtask(*state.task_id(subtask), state.pauses.plan(subtask)))

    def assign_splits(self, now: float) -> None:
        """Assign splits to running subtasks. Each assignment is journaled before the subtask gets it (R14)."""
        state = self._state
        if not len(state.splits):
            return
        for assignment, ids in state.splits.due(state.subtasks.in_status(SubtaskStatus.RUNNING)):
            task_id = state.task_id(assignment.subtask)
            if assignment.splits:
                state.out.append(Append(state.splits.assigned_event(assignment, str(task_id.attempt), now)))
            state.send(AssignSplits(*task_id, ids, assignment.is_last))

    def finish_released(self) -> None:
        """Command each subtask to finish whose final checkpoint is released."""
        for subtask in self._state.finals.may_finish(self._state.releases.last_released):
            self._state.subtasks.set_status(subtask, SubtaskStatus.FINISHING)
            self._state.send(FinishSubtask(*self._state.task_id(subtask)))

    def drain(self) -> None:
        requests = self._state.requests
        if not requests.draining or requests.stop is not None:
            return
        for subtask in self._state.finals.unbounded:
            running = self._state.subtasks.status(subtask) is SubtaskStatus.RUNNING
            if running and requests.drain_once(subtask):
                self._state.send(DrainSubtask(*self._state.task_id(subtask), requests.drains_at_once))

    def pause_if_quiet(self) -> None:
        """Begin the next round of pauses, if no checkpoint, stop or other round is in progress (R20).

        During a drain, a round begins only while a rescaling is in progress.
        """
        pauses, requests, rescaling = self._state.pauses, self._state.requests, self._state.rescaling
        busy = self._state.cycle.pending is not None or bool(pauses.current)
        if busy or requests.stop is not None or (requests.draining and rescaling.current is None):
            return
        for wanted_pauses, changes in pauses.wanted():
            if all(self._state.subtasks.status(pause.subtask) is SubtaskStatus.RUNNING for pause in wanted_pauses):
                pauses.begin(wanted_pauses, changes)
                for pause in wanted_pauses:
                    self._state.subtasks.set_status(pause.subtask, SubtaskStatus.PAUSED)
                    self._state.send(PauseSubtask(*self._state.task_id(pause.subtask), pause.reason))
                return
