"""Measurements of a micro-batch from Spark's progress event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.progress import BatchProgress


@dataclass(frozen=True)
class SparkProgress:
    """Measurements of one micro-batch.

    Attributes:
        duration: seconds from the start to the commit of the batch.
        rows: rows of input.
        state: (rows, bytes, partitions) of the query's stateful operators; None without state. Rows and bytes are sums
            over the operators, and partitions are the greatest number.
    """

    batch_id: int
    duration: float
    rows: int
    state: tuple[int, int, int] | None

    @classmethod
    def of(cls, progress: Any) -> SparkProgress:
        """Read the measurements from Spark's object in the JVM, with about ten calls."""
        listed = progress.stateOperators()
        operators = [listed[number] for number in range(len(listed))]
        state = None
        if operators:
            rows = sum(int(operator.numRowsTotal()) for operator in operators)
            size = sum(int(operator.memoryUsedBytes()) for operator in operators)
            state = rows, size, max(int(operator.numShufflePartitions()) for operator in operators)
        return cls(int(progress.batchId()), progress.batchDuration() / 1000, int(progress.numInputRows()), state)

    def with_input(self, interval: float, files: int, size: int, behind: int) -> BatchProgress:
        """Add measurements of the input: files and bytes of the batch, and ``behind``, the number of unread entries."""
        rows, state_bytes, partitions = self.state or (None, None, None)
        return BatchProgress(
            self.batch_id, self.duration, interval, self.rows, files, size, behind, rows, state_bytes, partitions
        )
