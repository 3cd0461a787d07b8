"""Events of checkpoints. A triggered checkpoint is aborted, or it completes and is then released."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ckpt.journal.kinds.event import HISTORY, JournalEvent, StatePart, listed_by
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind, OperatorState
from airflow_provider_ckpt.model.counts import added
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.progress import Snapshot


@dataclass
class Checkpoints(StatePart):
    """The checkpoints of a job. A checkpoint number 0 means that there is no such checkpoint."""

    last_triggered: Count = 0
    pending: Count = 0
    """Number of the checkpoint in progress. A claim resets it to 0, because no later driver completes that
    checkpoint."""
    triggered: dict[int, CheckpointTriggered] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    """Checkpoint → its trigger, for checkpoints that are not complete: in progress, aborted or lost; at most
    ``HISTORY``."""
    checkpoints: dict[int, CheckpointCompleted] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    last_completed: Count = 0
    completed_count: Count = 0
    aborted: dict[int, str] = field(default_factory=dict)
    aborted_count: Count = 0
    releases: dict[int, CheckpointReleased] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    """Checkpoint → its releases in sinks. A checkpoint above ``last_released`` is released in some sinks only."""
    last_released: Count = 0
    """The last checkpoint that every sink has released."""
    sinks_released: dict[str, int] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Sink → last checkpoint that it has released. Sinks that have released none above ``last_released`` are
    missing."""
    released_counts: dict[str, dict[str, int]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Sink → totals of its releases since the job began, such as ``rows`` and ``files``."""


@dataclass(frozen=True)
class CheckpointTriggered(JournalEvent):
    """A checkpoint was triggered. Its number is never used again."""

    checkpoint: Count
    at: Instant
    kind: CheckpointKind = "checkpoint"

    def apply(self, state: Checkpoints) -> None:
        state.last_triggered = max(state.last_triggered, self.checkpoint)
        state.pending = self.checkpoint
        _remember(state.triggered, self.checkpoint, self)


@dataclass(frozen=True)
class CheckpointCompleted(JournalEvent):
    """A checkpoint is complete: every subtask has reached it. This event is its commit point.

    Args:
        subtasks: Subtask → its snapshot (log position, source offsets, watermark).
        operators: Operator → "running", "partially finished" or "finished".
    """

    checkpoint: Count
    triggered_at: Instant
    at: Instant
    kind: CheckpointKind
    subtasks: Mapping[SubtaskId, Snapshot]
    operators: Mapping[str, OperatorState]
    releasing: tuple[int, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Earlier checkpoints with a release in progress, ascending. The history must not drop them, because the next
    release begins at their positions."""

    @property
    def is_final(self) -> bool:
        """True if the checkpoint covers all data of the job. An ordinary checkpoint does that if every subtask had
        reached its end of data before the barrier."""
        return self.kind == "final" or all(snapshot.finished for snapshot in self.subtasks.values())

    def apply(self, state: Checkpoints) -> None:
        needed = {state.last_released, *state.sinks_released.values(), *self.releasing}
        _remember(state.checkpoints, self.checkpoint, self, needed)
        state.triggered.pop(self.checkpoint, None)
        state.last_triggered = max(state.last_triggered, self.checkpoint)
        state.last_completed = max(state.last_completed, self.checkpoint)
        state.completed_count += 1
        _no_longer_pending(state, self.checkpoint)


@dataclass(frozen=True)
class CheckpointAborted(JournalEvent):
    checkpoint: Count
    reason: str
    at: Instant

    @property
    def decides(self) -> bool:
        """Return False. Even if the event is lost, no later driver completes the checkpoint or reuses its number."""
        return False

    def apply(self, state: Checkpoints) -> None:
        if self.checkpoint not in state.aborted:
            state.aborted_count += 1
        _remember(state.aborted, self.checkpoint, self.reason)
        _no_longer_pending(state, self.checkpoint)


@dataclass(frozen=True)
class CheckpointReleased(JournalEvent):
    """All sinks have released everything up to ``checkpoint``.

    ``sinks``: sink → counts of its release, such as ``rows``.
    """

    checkpoint: Count
    at: Instant
    sinks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def shows_something(self) -> bool:
        return any(any(counts.values()) for counts in self.sinks.values())

    def apply(self, state: Checkpoints) -> None:
        for sink, counts in self.sinks.items():
            _count_release(state, sink, self.checkpoint, counts)
        _remember_release(state, self)
        state.last_released = max(state.last_released, self.checkpoint)
        ahead = {sink: number for sink, number in state.sinks_released.items() if number > state.last_released}
        state.sinks_released = ahead


@dataclass(frozen=True)
class SinkReleased(JournalEvent):
    """``sink`` has released everything up to ``checkpoint``, and at least one other sink has not."""

    sink: str
    checkpoint: Count
    at: Instant
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def decides(self) -> bool:
        """Return False. If the event is lost, the next driver repeats the release, which changes nothing (R9)."""
        return False

    def apply(self, state: Checkpoints) -> None:
        _count_release(state, self.sink, self.checkpoint, self.counts)
        _remember_release(state, CheckpointReleased(self.checkpoint, self.at, {self.sink: self.counts}))
        if self.checkpoint > max(state.last_released, state.sinks_released.get(self.sink, 0)):
            state.sinks_released[self.sink] = self.checkpoint


def _remember(history: dict[int, Any], number: int, value: Any, needed: Collection[int] = ()) -> None:
    """Add ``value`` to a history under ``number``. Drop the lowest number if there are more than HISTORY.

    Args:
        needed: Numbers that are never dropped.
    """
    history[number] = value
    if len(history) > HISTORY and (droppable := [remembered for remembered in history if remembered not in needed]):
        del history[min(droppable)]


def _count_release(state: Checkpoints, sink: str, checkpoint: int, counts: Mapping[str, int]) -> None:
    """Add the counts of a release to the sink's totals, unless the sink has released ``checkpoint`` before (R9)."""
    if checkpoint > max(state.last_released, state.sinks_released.get(sink, 0)):
        state.released_counts[sink] = added(state.released_counts.get(sink, {}), counts)


def _remember_release(state: Checkpoints, release: CheckpointReleased) -> None:
    """Remember a release, merged with earlier releases of the same checkpoint in other sinks.

    Releases without rows are dropped first, because many of them must not displace a release that clients still read.
    """
    number = release.checkpoint
    earlier = state.releases.get(number)
    sinks = release.sinks if earlier is None else {**earlier.sinks, **release.sinks}
    with_rows = {
        remembered_number for remembered_number, remembered in state.releases.items() if remembered.shows_something
    }
    needed = {state.last_released, number}
    if len(with_rows) < HISTORY - len(needed):
        needed |= with_rows
    _remember(state.releases, number, replace(release, sinks=sinks), needed)


def _no_longer_pending(state: Checkpoints, checkpoint: int) -> None:
    if state.pending == checkpoint:
        state.pending = 0
