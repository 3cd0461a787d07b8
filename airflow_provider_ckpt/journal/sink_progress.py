"""The progress of a sink's releases, as the journal records it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointCompleted


@dataclass(frozen=True)
class SinkProgress:
    """The last release of a sink.

    Args:
        released: Last checkpoint that the sink has released; None if it has released none.
        epoch: First epoch of the sink in the job. Output that was staged under its uid earlier does not count.
    """

    released: CheckpointCompleted | None = None
    epoch: int = 0

    @property
    def checkpoint(self) -> int:
        return 0 if self.released is None else self.released.checkpoint
