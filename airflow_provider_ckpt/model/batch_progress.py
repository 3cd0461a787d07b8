"""What a query says of one micro-batch, for whoever watches how it keeps up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchProgress:
    """``duration``: seconds from its trigger to Spark's commit; ``interval``: that between two triggers, as it runs.
    ``rows``: Spark's ``numInputRows``, in which what is read for two outputs counts twice. ``files``, ``size`` (bytes):
    of the input that gave most of them; 0 of inputs that are no files. ``behind``: entries of the logs of its producers
    that it has not read. ``state_rows``, ``state_bytes``, ``state_partitions``: of a query that keeps state."""

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
        """It took longer than it is until the next one is to begin. Of a query without an interval that is never so."""
        return 0 < self.interval < self.duration
