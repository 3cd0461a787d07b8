"""Measurements of one micro-batch, by which a controller sees whether the query keeps up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchProgress:
    """Measurements of one micro-batch.

    Args:
        batch_id: Spark's id of the batch.
        duration: Seconds from its trigger to Spark's commit.
        interval: Seconds between two triggers, as the query runs.
        rows: Spark's ``numInputRows``, which counts rows twice that are read for two outputs.
        files: Files of the input with the most files; 0 without file inputs.
        size: Bytes of the input with the most bytes; 0 without file inputs.
        behind: Entries in the logs of its producers that the query has not read.
        state_rows: Rows of its state; None without state.
        state_bytes: Bytes of its state; None without state.
        state_partitions: Partitions of its state; None without state.
    """

    batch_id: int
    duration: float
    interval: float
    rows: int
    files: int = 0
    size: int = 0
    behind: int = 0
    state_rows: int | None = None
    state_bytes: int | None = None
    state_partitions: int | None = None

    @property
    def is_late(self) -> bool:
        """True if the batch took longer than the interval to the next one. Always False without an interval."""
        return 0 < self.interval < self.duration
