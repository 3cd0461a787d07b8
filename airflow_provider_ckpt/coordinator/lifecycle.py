"""From the first sign of life of a subtask to its end."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.coordinator.checkpointing import Completed
from airflow_provider_ckpt.coordinator.messages import (
    Append,
    DrainSubtask,
    DropSource,
    FinishSubtask,
    ResumeWithout,
    SourceAtEnd,
    StoppedAtBoundary,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.state import SubtaskStatus
from airflow_provider_ckpt.journal.events import SourceDropped, SourceEnded, SubtaskEndOfData, SubtaskFinished


class SubtaskLifecycle:
    """What subtasks say of themselves, and what they are told to do apart from barriers."""

    def __init__(self, parts: Parts, told_end_of_data: Iterable[str]) -> None:
        """``told_end_of_data``: subtasks whose end of data is in the journal."""
        self._parts = parts
        self._told_end_of_data = set(told_end_of_data)

    # -- what they say

    def running(self, message: SubtaskRunning) -> None:
        subtasks, drops, subtask = self._parts.subtasks, self._parts.drops, message.subtask
        first = subtasks.status(subtask) is SubtaskStatus.NEVER_STARTED
        new_attempt = subtasks.begin(subtask, message.attempt)
        if drops.current is not None and drops.current[0] == subtask:
            drops.finish()
        subtasks.set_status(subtask, SubtaskStatus.RUNNING)
        if first or new_attempt:
            self._parts.cycle.started(subtask, again=not first)

    def at_end_of_data(self, message: SubtaskAtEndOfData, now: float) -> None:
        parts, subtask = self._parts, message.subtask
        if parts.subtasks.has_ended(subtask):
            return
        first = parts.subtasks.status(subtask) is SubtaskStatus.NEVER_STARTED
        parts.subtasks.set_status(subtask, SubtaskStatus.AT_END_OF_DATA)
        self._note_ended(subtask, parts.drops.subtask_ended(subtask), now)
        news = subtask not in self._told_end_of_data
        if news:
            self._told_end_of_data.add(subtask)
            parts.out.append(Append(SubtaskEndOfData(subtask, message.attempt, now)))
        if parts.finals.at_end_of_data(subtask, news):
            parts.cycle.want_for((subtask, None))
        if first:
            parts.cycle.started(subtask, again=False)

    def done(self, message: SubtaskDone, now: float) -> Completed | None:
        """A checkpoint may complete with the end of a subtask. Raises CutViolatedError."""
        parts, subtask = self._parts, message.subtask
        parts.drops.subtask_ended(subtask)
        parts.finals.forget(subtask)
        parts.subtasks.set_status(subtask, SubtaskStatus.FINISHED)
        parts.out.append(Append(SubtaskFinished(subtask, message.attempt, now)))
        return parts.cycle.finished(subtask, now)

    def source_at_end(self, message: SourceAtEnd, now: float) -> None:
        news = self._parts.drops.report(message.subtask, message.uid, message.batch_id, message.droppable)
        self._note_ended(message.subtask, news, now)

    def _note_ended(self, subtask: str, news: list[tuple[str, int]], now: float) -> None:
        vertex = self._parts.subtasks.vertex(subtask)
        for uid, batch_id in news:
            self._parts.out.append(Append(SourceEnded(vertex, uid, batch_id, now)))
            self._parts.cycle.want_for((subtask, uid))

    def stopped_at_boundary(self, message: StoppedAtBoundary, now: float) -> None:
        vertex = self._parts.subtasks.vertex(message.subtask)
        if self._parts.drops.stopped(vertex, message.uid):
            self._parts.out.append(Append(SourceDropped(vertex, message.uid, message.batch_id, now)))
        self._parts.send(ResumeWithout, message.subtask, uid=message.uid)

    # -- what they are told

    def finish_released(self) -> None:
        """Close the subtasks whose final checkpoint is released."""
        for subtask in self._parts.finals.may_finish(self._parts.releases.last_released):
            self._parts.subtasks.set_status(subtask, SubtaskStatus.FINISHING)
            self._parts.send(FinishSubtask, subtask)

    def drain(self) -> None:
        requests = self._parts.requests
        if not requests.draining or requests.stop is not None:
            return
        for subtask in self._parts.finals.unbounded:
            running = self._parts.subtasks.status(subtask) is SubtaskStatus.RUNNING
            if running and requests.drain_once(subtask):
                self._parts.send(DrainSubtask, subtask)

    def drop_if_quiet(self) -> None:
        """Begin the next planned restart, if no checkpoint is pending and none is in progress (R20)."""
        drops, requests = self._parts.drops, self._parts.requests
        busy = self._parts.cycle.pending is not None or drops.current is not None
        if busy or requests.stop is not None or requests.draining:
            return
        for subtask, uid in drops.waiting:
            if self._parts.subtasks.status(subtask) is SubtaskStatus.RUNNING:
                drops.begin(subtask, uid)
                self._parts.subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
                self._parts.send(DropSource, subtask, uid=uid)
                return
