"""The progress of a checkpoint, for people and clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CheckpointKind = Literal["checkpoint", "final", "savepoint"]
"""The kind of a checkpoint: ``final`` if every subtask was at its end of data, ``savepoint`` for a stop."""
CheckpointStatus = Literal["in progress", "completed", "released", "aborted"]
"""The progress of a checkpoint."""
OperatorState = Literal["running", "partially finished", "finished"]
"""The state of an operator: none, some, or all of its subtasks are finished."""


@dataclass(frozen=True)
class CheckpointView:
    """The progress of one checkpoint.

    Times are epoch seconds by the driver's clock. A time is None if its event has not happened, or if the journal no
    longer has the event.
    """

    checkpoint: int
    """Number of the checkpoint. Later checkpoints have higher numbers."""
    kind: CheckpointKind
    status: CheckpointStatus
    triggered_at: float | None = None
    completed_at: float | None = None
    released_at: float | None = None
    """Time of this checkpoint's own release. None also if the release of a later checkpoint included its output."""
    reason: str | None = None
    """Reason for the abort; None if the checkpoint is not aborted."""
    finished: tuple[str, ...] = ()
    """Uids of the operators that were finished in the checkpoint, sorted."""
    sinks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Sink uid → counts of this checkpoint's release, such as ``files`` and ``rows``. Empty without a release."""
    late_rows: Mapping[str, int] = field(default_factory=dict)
    """Vertex → number of rows that its query has dropped as late since the job began."""
    malformed_rows: Mapping[str, int] = field(default_factory=dict)
    """Source → number of the source's rows since the job began that do not fit its schema."""

    @property
    def duration_ms(self) -> int | None:
        """Milliseconds from the checkpoint's trigger to its completion; None if it was not completed."""
        if self.completed_at is None or self.triggered_at is None:
            return None
        return round((self.completed_at - self.triggered_at) * 1000)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``ckpt checkpoints --json`` (docs/cli.md)."""
        return {
            "checkpoint": self.checkpoint,
            "kind": self.kind,
            "status": self.status,
            "triggered_at": self.triggered_at,
            "completed_at": self.completed_at,
            "released_at": self.released_at,
            "duration_ms": self.duration_ms,
            "reason": self.reason,
            "finished": list(self.finished),
            "sinks": {uid: dict(counts) for uid, counts in self.sinks.items()},
            "late_rows": dict(self.late_rows),
            "malformed_rows": dict(self.malformed_rows),
        }
