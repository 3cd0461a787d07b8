"""The ends of subtasks, "<vertex>/<index>"."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart


@dataclass
class Subtasks(StatePart):
    end_of_data: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class SubtaskEndOfData(JournalEvent):
    """No more batches from this subtask."""

    subtask: str
    attempt: str
    at: float

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)


@dataclass(frozen=True)
class SubtaskFinished(JournalEvent):
    """It is done and is not run again."""

    subtask: str
    attempt: str
    at: float

    def apply(self, state: Subtasks) -> None:
        state.end_of_data.add(self.subtask)
        state.finished.add(self.subtask)
