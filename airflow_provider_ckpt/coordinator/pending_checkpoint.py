"""A checkpoint between its trigger and its completion."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.coordinator.checkpoint_plan import CheckpointPlan
from airflow_provider_ckpt.model.checkpoint import CheckpointKind
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId

End = tuple[SubtaskId, str | None]
"""An end: (subtask, None) for its end of data, (subtask, uid) for the end of one of its sources."""

NOTHING = Snapshot(position=0, batch_id=None)
"""The snapshot of a subtask that no checkpoint covers."""


class PendingCheckpoint:
    """The acknowledgements of one checkpoint.

    Every subtask of the plan is in exactly one of ``remaining`` (must still acknowledge), ``acknowledged`` and
    ``finished`` (without a barrier of this checkpoint).
    """

    def __init__(
        self,
        checkpoint: int,
        kind: CheckpointKind,
        plan: CheckpointPlan,
        *,
        covers: frozenset[End],
        ended: frozenset[tuple[str, str]],
        now: float,
    ) -> None:
        self.checkpoint = checkpoint
        self.kind = kind
        self.triggered_at = now
        self.covers = covers
        """Ends of data and of sources that were known before the trigger, so that the barrier follows them."""
        self.ended = ended
        """(vertex, uid) of the sources whose end was known before the trigger."""
        self._acknowledged: dict[SubtaskId, Snapshot] = {}
        self._remaining = dict.fromkeys(plan.wait_for)
        self._finished = dict.fromkeys(plan.finished)
        self._triggered = set(plan.trigger)

    @property
    def acknowledged(self) -> Mapping[SubtaskId, Snapshot]:
        return self._acknowledged

    @property
    def remaining(self) -> tuple[SubtaskId, ...]:
        return tuple(self._remaining)

    @property
    def finished(self) -> tuple[SubtaskId, ...]:
        return tuple(self._finished)

    @property
    def is_complete(self) -> bool:
        return not self._remaining

    def waits_for(self, subtask: SubtaskId) -> bool:
        return subtask in self._remaining

    def was_triggered(self, subtask: SubtaskId) -> bool:
        return subtask in self._triggered

    def acknowledge(self, subtask: SubtaskId, snapshot: Snapshot) -> None:
        del self._remaining[subtask]
        self._acknowledged[subtask] = snapshot

    def finish(self, subtask: SubtaskId) -> None:
        """Record that the subtask closed without a barrier of this checkpoint.

        It is finished in this checkpoint (R20).
        """
        del self._remaining[subtask]
        self._finished[subtask] = None

    def trigger(self, subtask: SubtaskId) -> None:
        self._triggered.add(subtask)
