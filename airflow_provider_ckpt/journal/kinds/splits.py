"""The splits of sources: handed out, done, and covered by checkpoints. All of them are places in the frozen list."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.split import Ranges, difference, union
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass
class Splits(StatePart):
    splits_assigned: dict[str, dict[SubtaskId, Ranges]] = field(default_factory=dict, metadata=LATER)
    """Source -> subtask -> what was handed out to it in this epoch, or deployment, and to no other one since."""
    splits_done: dict[str, Ranges] = field(default_factory=dict, metadata=LATER)
    """Source -> what was read, as far as it was told: for display. What counts is in the logs of the subtasks."""
    splits_covered: dict[str, dict[int, Ranges]] = field(default_factory=dict, metadata=LATER)
    """Source -> checkpoint -> what it covers beyond the one before. The logs may have forgotten these (R14)."""


@dataclass(frozen=True)
class SplitsAssigned(JournalEvent):
    """Handed out to a subtask, which is told after this is durable (R14)."""

    source: str
    subtask: SubtaskId
    attempt: str
    splits: Ranges
    at: Instant

    def apply(self, state: Splits) -> None:
        of_source = state.splits_assigned.setdefault(self.source, {})
        for subtask, splits in of_source.items():
            of_source[subtask] = difference(splits, self.splits)  # given back by it before, or nobody else had them
        of_source[self.subtask] = union(of_source.get(self.subtask, ()), self.splits)


@dataclass(frozen=True)
class SplitsDone(JournalEvent):
    """Read by a subtask, and published in its log."""

    source: str
    subtask: SubtaskId
    splits: Ranges
    at: Instant

    @property
    def decides(self) -> bool:
        """The entries in the subtask's log do."""
        return False

    def apply(self, state: Splits) -> None:
        state.splits_done[self.source] = union(state.splits_done.get(self.source, ()), self.splits)


@dataclass(frozen=True)
class SplitsCovered(JournalEvent):
    """What ``checkpoint`` covers beyond the one before. Written before its completion, and in one entry with it: so it
    is durable before a log forgets what the checkpoint covers (R14)."""

    source: str
    checkpoint: Count
    splits: Ranges

    @property
    def decides(self) -> bool:
        """The completion behind it does."""
        return False

    def apply(self, state: Splits) -> None:
        state.splits_covered.setdefault(self.source, {})[self.checkpoint] = self.splits
        state.splits_done[self.source] = union(state.splits_done.get(self.source, ()), self.splits)


def covered_splits(state: Splits, source: str, last_completed: int) -> Ranges:
    """Those that the last completed checkpoint covers. One that was triggered and not completed covers nothing."""
    covered: Ranges = ()
    for checkpoint, splits in state.splits_covered.get(source, {}).items():
        if checkpoint <= last_completed:
            covered = union(covered, splits)
    return covered


def forget_assigned(state: Splits) -> None:
    """Another driver: what attempts before were handed out goes back."""
    state.splits_assigned.clear()


def rewind_splits(state: Splits, checkpoint: int) -> None:
    """Done is what ``checkpoint`` covers, and nothing else; 0: nothing."""
    for source in {*state.splits_done, *state.splits_covered}:
        of_source = state.splits_covered.get(source, {})
        state.splits_covered[source] = {one: splits for one, splits in of_source.items() if one <= checkpoint}
        state.splits_done[source] = covered_splits(state, source, checkpoint)


def give_up_splits(state: Splits, source: str) -> None:
    for part in (state.splits_assigned, state.splits_done, state.splits_covered):
        part.pop(source, None)
