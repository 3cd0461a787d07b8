"""Checkpoints: triggered, then completed or aborted, then released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.journal.kinds.event import HISTORY, JournalEvent, StatePart, listed_by
from airflow_provider_ckpt.model.checkpoint import CheckpointKind, OperatorState
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass
class Checkpoints(StatePart):
    """A number 0 means "none yet"."""

    last_triggered: int = 0
    pending: int = 0
    """The checkpoint in progress. One of an earlier epoch is not: nobody will complete it."""
    triggered: dict[int, CheckpointTriggered] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    """Those that did not complete, the last ``HISTORY``."""
    checkpoints: dict[int, CheckpointCompleted] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    last_completed: int = 0
    completed_count: int = 0
    aborted: dict[int, str] = field(default_factory=dict)
    aborted_count: int = 0
    releases: dict[int, CheckpointReleased] = field(default_factory=dict, metadata=listed_by("checkpoint"))
    last_released: int = 0


@dataclass(frozen=True)
class CheckpointTriggered(JournalEvent):
    """A number is in use."""

    checkpoint: int
    at: float
    kind: CheckpointKind = "checkpoint"

    def apply(self, state: Checkpoints) -> None:
        state.last_triggered = max(state.last_triggered, self.checkpoint)
        state.pending = self.checkpoint
        _remember(state.triggered, self.checkpoint, self)


@dataclass(frozen=True)
class CheckpointCompleted(JournalEvent):
    """The commit point of a checkpoint. ``subtasks``: by "<vertex>/<index>"; ``operators``: by uid."""

    checkpoint: int
    triggered_at: float
    at: float
    kind: CheckpointKind
    subtasks: Mapping[SubtaskId, Snapshot]
    operators: Mapping[str, OperatorState]

    def apply(self, state: Checkpoints) -> None:
        _remember(state.checkpoints, self.checkpoint, self)
        state.triggered.pop(self.checkpoint, None)
        state.last_triggered = max(state.last_triggered, self.checkpoint)
        state.last_completed = max(state.last_completed, self.checkpoint)
        state.completed_count += 1
        _no_longer_pending(state, self.checkpoint)


@dataclass(frozen=True)
class CheckpointAborted(JournalEvent):
    checkpoint: int
    reason: str
    at: float

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

    checkpoint: int
    at: float
    sinks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def apply(self, state: Checkpoints) -> None:
        _remember(state.releases, self.checkpoint, self)
        state.last_released = max(state.last_released, self.checkpoint)


def _remember(history: dict[int, Any], number: int, value: Any) -> None:
    history[number] = value
    if len(history) > HISTORY:
        del history[min(history)]


def _no_longer_pending(state: Checkpoints, checkpoint: int) -> None:
    if state.pending == checkpoint:
        state.pending = 0
