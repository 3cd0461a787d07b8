"""What is still needed of a subtask's log (R7): pure arithmetic over positions."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch


def log_head(
    *,
    retained: Iterable[int],
    unreleased_from: int | None,
    consumers: Iterable[int],
    last_batch: int,
) -> int:
    """The first entry that must stay.

    ``retained``: the subtask's own positions in the retained checkpoints. ``unreleased_from``: entries from
    here on may hold handles that are not released; None if the subtask has no sinks. ``consumers``: for each
    consumer its input position in the oldest retained checkpoint, 0 if it has not started. ``last_batch``:
    position of the last batch, which the log is folded from; -1 if there is none.
    """
    bounds = [*retained, *(data_head(consumers) or ()), last_batch]
    if unreleased_from is not None:
        bounds.append(unreleased_from)
    return max(0, min(bounds))


def last_batch_position(records: Iterable[Numbered]) -> int:
    """-1 if there is none."""
    return max((number for number, record in records if isinstance(record, Batch)), default=-1)


def data_head(consumers: Iterable[int]) -> tuple[int, ...]:
    """Data files of batches below this position were read by everybody; () without consumers.

    One below the lowest position: the entry at the edge may have been read in part (a read limit).
    """
    positions = list(consumers)
    return (max(0, min(positions) - 1),) if positions else ()


def deletable_files(records: Iterable[Numbered], head: int) -> list[str]:
    """Paths of the data files in batches below ``head``."""
    return [
        file.path for number, record in records if number < head and isinstance(record, Batch) for file in record.files
    ]
