"""How far the releases of a sink have come, as the journal knows."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointCompleted


@dataclass(frozen=True)
class SinkProgress:
    """``released``: the last checkpoint that the sink has; None: nothing yet. ``epoch``: from which on it is in the
    job; what was staged before under its uid was given up."""

    released: CheckpointCompleted | None = None
    epoch: int = 0

    @property
    def checkpoint(self) -> int:
        return 0 if self.released is None else self.released.checkpoint
