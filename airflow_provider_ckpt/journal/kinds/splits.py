"""Events of the splits of sources: assigned, done and covered by checkpoints.

A split's number is its place in the source's frozen list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.split import Ranges, difference, union


@dataclass
class Splits(StatePart):
    splits_assigned: dict[str, dict[SubtaskId, Ranges]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source → subtask → splits assigned to it in this epoch or deployment, and to no other subtask since."""
    splits_done: dict[str, Ranges] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source → splits that are done. This is for display only: a driver reads the subtasks' logs instead."""
    splits_covered: dict[str, dict[int, Ranges]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source → checkpoint → splits that this checkpoint covers and the previous checkpoint does not. The subtasks' logs
    may no longer have these splits (R14)."""


@dataclass(frozen=True)
class SplitsAssigned(JournalEvent):
    """Splits are assigned to a subtask. The subtask gets the splits when this event is durable (R14)."""

    source: str
    subtask: SubtaskId
    attempt: str
    splits: Ranges
    at: Instant

    def apply(self, state: Splits) -> None:
        assigned = state.splits_assigned.setdefault(self.source, {})
        for subtask, splits in assigned.items():
            assigned[subtask] = difference(splits, self.splits)  # a subtask that had these splits has returned them
        assigned[self.subtask] = union(assigned.get(self.subtask, ()), self.splits)


@dataclass(frozen=True)
class SplitsDone(JournalEvent):
    """A subtask has read splits and published them in its log."""

    source: str
    subtask: SubtaskId
    splits: Ranges
    at: Instant

    @property
    def decides(self) -> bool:
        """Return False, because the subtask's log already records the splits."""
        return False

    def apply(self, state: Splits) -> None:
        state.splits_done[self.source] = union(state.splits_done.get(self.source, ()), self.splits)


@dataclass(frozen=True)
class SplitsCovered(JournalEvent):
    """The splits that ``checkpoint`` covers and the previous checkpoint does not.

    The event is in the same entry as the checkpoint's completion, so it is durable before a log is truncated (R14).
    """

    source: str
    checkpoint: Count
    splits: Ranges

    @property
    def decides(self) -> bool:
        """Return False, because the checkpoint's completion, in the same entry, is flushed at once."""
        return False

    def apply(self, state: Splits) -> None:
        state.splits_covered.setdefault(self.source, {})[self.checkpoint] = self.splits
        state.splits_done[self.source] = union(state.splits_done.get(self.source, ()), self.splits)


def covered_splits(state: Splits, source: str, last_completed: int) -> Ranges:
    """Return the splits of ``source`` that the checkpoints up to ``last_completed`` cover."""
    covered: Ranges = ()
    for checkpoint, splits in state.splits_covered.get(source, {}).items():
        if checkpoint <= last_completed:
            covered = union(covered, splits)
    return covered


def unassign_all(state: Splits) -> None:
    """Remove all assignments of splits to subtasks, because another driver has claimed the job."""
    state.splits_assigned.clear()


def rewind_splits(state: Splits, checkpoint: int) -> None:
    """Set the done splits of all sources back to the splits that ``checkpoint`` covers; to none if it is 0."""
    for source in {*state.splits_done, *state.splits_covered}:
        covered = state.splits_covered.get(source, {})
        state.splits_covered[source] = {number: splits for number, splits in covered.items() if number <= checkpoint}
        state.splits_done[source] = covered_splits(state, source, checkpoint)


def drop_splits(state: Splits, source: str) -> None:
    for part in (state.splits_assigned, state.splits_done, state.splits_covered):
        part.pop(source, None)
