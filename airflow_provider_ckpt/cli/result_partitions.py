"""Result partitions in the output of ``ckpt show --partitions``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.cli import text

if TYPE_CHECKING:
    from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics

_HEAD = ("PARTITION", "PRODUCER", "ROWS", "BYTES", "FILES", "SPLITS")


def shown_partitions(partitions: Sequence[PartitionWithMetrics] | None) -> list[str]:
    """Return the lines of the table of result partitions. ``partitions`` is None without ``--partitions``."""
    if partitions is None:
        return []
    if not partitions:
        return ["there is no result partition"]
    rows = [
        (
            partition.subtask,
            "at its end" if partition.is_finished else "runs",
            partition.rows,
            partition.bytes,
            partition.files,
            partition.splits,
        )
        for partition in partitions
    ]
    return text.table(_HEAD, rows).splitlines()


def partition_view(partition: PartitionWithMetrics) -> dict[str, Any]:
    return {
        "subtask": partition.subtask,
        "rows": partition.rows,
        "bytes": partition.bytes,
        "files": partition.files,
        "splits": partition.splits,
        "is_finished": partition.is_finished,
    }
