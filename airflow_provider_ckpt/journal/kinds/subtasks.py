"""Failures and ends of subtasks, each named "<vertex>/<index>"."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant


@dataclass
class Subtasks(StatePart):
    end_of_data: set[SubtaskId] = field(default_factory=set)
    finished: set[SubtaskId] = field(default_factory=set)
    restarts: dict[SubtaskId, int] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Subtask → how often it was restarted while a run continued, since the job began; for display."""


@dataclass(frozen=True)
class SubtaskRestarting(JournalEvent):
    """An attempt of a subtask failed, and the next attempt begins after ``delay`` seconds while the run continues.

    Args:
        attempt: The attempt that failed.
        number: Which restart in a row this is, from 1 to ``limit``; 0 if a worker was lost, which does not count.
    """

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
    """The subtask has published its last batch."""

    subtask: SubtaskId
    attempt: str
    at: Instant

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)


@dataclass(frozen=True)
class SubtaskFinished(JournalEvent):
    """The subtask is finished and does not run again."""

    subtask: SubtaskId
    attempt: str
    at: Instant

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)
        state.finished.add(self.subtask)
