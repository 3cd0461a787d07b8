"""Checkpoints: triggered, then completed or aborted, then released."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ckpt.journal.kinds.event import HISTORY, JournalEvent, StatePart, listed_by
from airflow_provider_ckpt.model.checkpoint import CheckpointKind, OperatorState
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass
class Checkpoints(StatePart):
    """A number 0 means "none yet"."""

    last_triggered: Count = 0
    pending: Count = 0
    """The checkpoint in progress. One of an earlier epoch is not: nobody will complete it."""
    triggered: dict[int, CheckpointTriggered] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    """Those that did not complete, the last ``HISTORY``."""
    checkpoints: dict[int, CheckpointCompleted] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    last_completed: Count = 0
    completed_count: Count = 0
    aborted: dict[int, str] = field(default_factory=dict)
    aborted_count: Count = 0
    releases: dict[int, CheckpointReleased] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    """What became visible, by the checkpoint as which it did; of one above ``last_released`` in some sinks only."""
    last_released: Count = 0
    """Every sink has it."""
    sinks_released: dict[str, int] = field(default_factory=dict, metadata=LATER)
    """By sink, the last one that it has, where that is above ``last_released``."""


@dataclass(frozen=True)
class CheckpointTriggered(JournalEvent):
    """A number is in use."""

    checkpoint: Count
    at: Instant
    kind: CheckpointKind = "checkpoint"

    def apply(self, state: Checkpoints) -> None:
        state.last_triggered = max(state.last_triggered, self.checkpoint)
        state.pending = self.checkpoint
        _remember(state.triggered, self.checkpoint, self)


@dataclass(frozen=True)
class CheckpointCompleted(JournalEvent):
    """The commit point of a checkpoint. ``subtasks``: by "<vertex>/<index>"; ``operators``: by uid."""

    checkpoint: Count
    triggered_at: Instant
    at: Instant
    kind: CheckpointKind
    subtasks: Mapping[SubtaskId, Snapshot]
    operators: Mapping[str, OperatorState]
    releasing: tuple[int, ...] = field(default=(), metadata=LATER)
    """Earlier ones of which a release was under way, ascending: that may last longer than the history, and the release
    behind it begins at their positions."""

    @property
    def is_final(self) -> bool:
        """It covers all data. Also one that was triggered as an ordinary one: the last end of data may overtake its
        barrier."""
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
        """Its number was used up when it was triggered, and no later driver completes it."""
        return False

    def apply(self, state: Checkpoints) -> None:
        if self.checkpoint not in state.aborted:
            state.aborted_count += 1
        _remember(state.aborted, self.checkpoint, self.reason)
        _no_longer_pending(state, self.checkpoint)


@dataclass(frozen=True)
class CheckpointReleased(JournalEvent):
    """All sinks released everything up to ``checkpoint``. ``sinks``: uid -> what was released (counts)."""

    checkpoint: Count
    at: Instant
    sinks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def shows_something(self) -> bool:
        return any(any(counts.values()) for counts in self.sinks.values())

    def apply(self, state: Checkpoints) -> None:
        _remember_release(state, self)
        state.last_released = max(state.last_released, self.checkpoint)
        ahead = {sink: number for sink, number in state.sinks_released.items() if number > state.last_released}
        state.sinks_released = ahead


@dataclass(frozen=True)
class SinkReleased(JournalEvent):
    """``sink`` has released everything up to ``checkpoint``, others have not. ``counts``: what became visible."""

    sink: str
    checkpoint: Count
    at: Instant
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def decides(self) -> bool:
        """The sink knows it: asked once more, it releases nothing again (R9)."""
        return False

    def apply(self, state: Checkpoints) -> None:
        _remember_release(state, CheckpointReleased(self.checkpoint, self.at, {self.sink: self.counts}))
        if self.checkpoint > max(state.last_released, state.sinks_released.get(self.sink, 0)):
            state.sinks_released[self.sink] = self.checkpoint


def _remember(history: dict[int, Any], number: int, value: Any, needed: Collection[int] = ()) -> None:
    """``needed``: not forgotten, as the next release begins behind it, however long it takes to come."""
    history[number] = value
    if len(history) > HISTORY and (spare := [known for known in history if known not in needed]):
        del history[min(spare)]


def _remember_release(state: Checkpoints, release: CheckpointReleased) -> None:
    """One that sinks came to one after the other counts as a whole. Those without rows are forgotten first: an hour
    without input must not take away what somebody who was not there then has to be told of."""
    number = release.checkpoint
    before = state.releases.get(number)
    sinks = release.sinks if before is None else {**before.sinks, **release.sinks}
    with_rows = {known for known, one in state.releases.items() if one.shows_something}
    needed = {state.last_released, number}
    if len(with_rows) < HISTORY - len(needed):
        needed |= with_rows
    _remember(state.releases, number, replace(release, sinks=sinks), needed)


def _no_longer_pending(state: Checkpoints, checkpoint: int) -> None:
    if state.pending == checkpoint:
        state.pending = 0
