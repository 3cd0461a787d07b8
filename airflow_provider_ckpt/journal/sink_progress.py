"""The progress of a sink's releases, as the journal records it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointCompleted


@dataclass(frozen=True)
class SinkProgress:
    """The last release of a sink.

    Args:
        released: Last checkpoint that the sink has released; None if it has released none.
        epoch: First epoch whose staged output counts for the sink. Earlier output under its uid is void.
    """

    released: CheckpointCompleted | None = None
    epoch: int = 0

    @property
    def checkpoint(self) -> int:
        return 0 if self.released is None else self.released.checkpoint
