"""Measurements of a micro-batch from Spark's progress event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.progress import BatchProgress


@dataclass(frozen=True)
class SparkProgress:
    """Measurements of one micro-batch.

    Attributes:
        duration: seconds from the start to the commit of the batch.
        rows: rows of input.
        sources: (rows, unread records) of each source, in the order in which the query's plan reads them. Unread
            records are None if the source does not report its latest offset.
        state: (rows, bytes, partitions) of the query's stateful operators; None without state. Rows and bytes are sums
            over the operators, and partitions are the maximum.
    """

    batch_id: int
    duration: float
    rows: int
    state: tuple[int, int, int] | None
    sources: tuple[tuple[int, int | None], ...] = ()

    @classmethod
    def of(cls, progress: Any) -> SparkProgress:
        """Read the measurements from Spark's object in the JVM, with about five calls and three for each source."""
        listed = progress.stateOperators()
        operators = [listed[number] for number in range(len(listed))]
        state = None
        if operators:
            rows = sum(int(operator.numRowsTotal()) for operator in operators)
            size = sum(int(operator.memoryUsedBytes()) for operator in operators)
            state = rows, size, max(int(operator.numShufflePartitions()) for operator in operators)
        sources = tuple(
            (int(source.numInputRows()), unread_records(source.latestOffset(), source.endOffset()))
            for source in progress.sources()
        )
        rows = sum(rows for rows, _ in sources)
        return cls(int(progress.batchId()), progress.batchDuration() / 1000, rows, state, sources)

    def with_input(self, interval: float, files: int, size: int, behind: int) -> BatchProgress:
        """Return the measurements, with files and bytes of the batch. ``behind``: unread entries of producers' logs."""
        rows, state_bytes, partitions = self.state or (None, None, None)
        return BatchProgress(
            self.batch_id, self.duration, interval, self.rows, files, size, behind, rows, state_bytes, partitions
        )


def unread_records(latest: str | None, end: str | None) -> int | None:
    """Return the number of records between two offsets of a Kafka source (topic → partition → offset, as JSON).

    Return None if the source is of another kind, or does not report its latest offset.
    """
    if not latest or not end:
        return None
    try:
        newest, read = json.loads(latest), json.loads(end)
        return sum(
            max(0, int(offset) - int(read.get(topic, {}).get(partition, offset)))
            for topic, partitions in newest.items()
            for partition, offset in partitions.items()
        )
    except (ValueError, AttributeError, TypeError):
        return None
