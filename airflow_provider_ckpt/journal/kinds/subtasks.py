"""The failures and ends of subtasks, "<vertex>/<index>"."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass
class Subtasks(StatePart):
    end_of_data: set[SubtaskId] = field(default_factory=set)
    finished: set[SubtaskId] = field(default_factory=set)
    restarts: dict[SubtaskId, int] = field(default_factory=dict, metadata=LATER)
    """Subtask -> how often it began again by itself while a run went on, for display."""


@dataclass(frozen=True)
class SubtaskRestarting(JournalEvent):
    """``attempt`` of it failed; the next one begins after ``delay`` seconds, and the run goes on. ``number``: of the
    restart, in a row of at most ``limit``; 0 if it was its worker that was lost, and another one is to begin it."""

    subtask: SubtaskId
    attempt: str
    cause: str
    number: Count
    limit: Count
    delay: float
    at: Instant

    def apply(self, state: Subtasks) -> None:
        state.restarts[self.subtask] = state.restarts.get(self.subtask, 0) + 1


@dataclass(frozen=True)
class SubtaskEndOfData(JournalEvent):
    """No more batches from this subtask."""

    subtask: SubtaskId
    attempt: str
    at: Instant

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)


@dataclass(frozen=True)
class SubtaskFinished(JournalEvent):
    """It is done and is not run again."""

    subtask: SubtaskId
    attempt: str
    at: Instant

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)
        state.finished.add(self.subtask)
