"""What is still needed of a subtask's log (R7): pure arithmetic over positions."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname

from airflow_provider_ckpt.partitions.log_state import Numbered, is_awaited
from airflow_provider_ckpt.partitions.records import Batch, Record

FEW = 250
WORTH_KEEPING = 3
WORTH_KEEPING_MANY = 100
"""The head passes what is not released yet if that is so many times fewer entries than are got rid of by it. What is
kept below the head is read entry by entry, and what is behind it by the pack: where it is more than a few, a start from
an object store is to be no slower for it."""


def log_head(
    records: Iterable[Numbered],
    *,
    retained: Iterable[int],
    unreleased_from: int | None,
    consumers: Iterable[int],
) -> int:
    """The first entry that must stay of a log; ``records``: its live ones, at least from where it is held.

    ``retained``: the subtask's own positions in the retained checkpoints. ``unreleased_from``: entries from
    here on may hold handles that are not released; None if the subtask has no sinks. ``consumers``: for each
    consumer its input position in the oldest retained checkpoint, 0 if it has not started. The latter two hold batches
    and ends, and not the barriers of an idle subtask that follow what was read and released. Nor does a consumer hold
    batches that give it nothing: it comes no further with them, as those of a filter that lets no row through for
    weeks. Nor do a few batches that nobody may release, as a gate is shut, hold the barriers of weeks: the head passes
    them, and whoever truncates leaves them below it. What the log is folded from stays besides, wherever it is, and so
    do they (:func:`.kept_below`); so does the batch at the edge of a consumer's position.
    """
    known, read_from = list(records), held_from(None, consumers)
    awaited = [number for number, one in known if is_awaited(one)]
    bounds = [*retained]
    if read_from is not None:
        bounds += [number for number, one in known if number >= read_from and _is_read(one)]
    head = max(0, min(bounds))
    if unreleased_from is None:
        return head
    unreleased = [number for number in awaited if unreleased_from <= number < head]
    others = sum(unreleased_from <= number < head for number, _ in known) - len(unreleased)
    times = WORTH_KEEPING if len(unreleased) <= FEW else WORTH_KEEPING_MANY
    return head if others >= times * len(unreleased) else unreleased[0]


def _is_read(record: Record) -> bool:
    return is_awaited(record) and (not isinstance(record, Batch) or bool(record.files))


def held_from(unreleased_from: int | None, consumers: Iterable[int]) -> int | None:
    """The position from which on others than the subtask itself may still want something; None: nobody does."""
    starts = [*consumers, *(() if unreleased_from is None else (unreleased_from,))]
    return min(starts, default=None)


def data_head(consumers: Iterable[int]) -> tuple[int, ...]:
    """Data files of batches below this position were read by everybody; () without consumers.

    One below the lowest position: the entry at the edge may have been read in part (a read limit).
    """
    positions = list(consumers)
    return (max(0, min(positions) - 1),) if positions else ()


def deletable_folders(records: Iterable[Numbered], start: int, head: int) -> list[str]:
    """Folders with the data of batches from ``start`` on and below ``head``.

    A folder was written by one call, for one batch (R5). Besides the files that the entry names it holds what Spark
    puts there: its mark that all is written, checksums, files without rows.
    """
    named = [
        (number, dirname(file.path)) for number, record in records if isinstance(record, Batch) for file in record.files
    ]
    needed = {folder for number, folder in named if number >= head}
    return sorted({folder for number, folder in named if start <= number < head} - needed)
