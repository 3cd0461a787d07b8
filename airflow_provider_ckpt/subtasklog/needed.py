"""The entries of a subtask's log that are still needed (R7), computed from positions alone."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname

from airflow_provider_ckpt.subtasklog.log_state import Numbered, is_awaited
from airflow_provider_ckpt.subtasklog.records import Batch, Record

FEW = 250
WORTH_KEEPING = 3
WORTH_KEEPING_MANY = 100
"""Factors for :func:`log_head`: the head moves past n unreleased entries if at least factor × n entries can be deleted.
Readers read entries below the head one by one, and later entries in packs. So the factor is high for more than FEW
unreleased entries.
"""


def log_head(
    records: Iterable[Numbered],
    *,
    retained: Iterable[int],
    unreleased_from: int | None,
    consumers: Iterable[int],
) -> int:
    """Return the entry number to which the head of a log can move. Entries below it can be deleted.

    Sinks need batches and ends. Consumers need batches with rows, and ends. No consumer or sink needs barriers, which
    an idle subtask also appends. If a closed gate keeps a few batches unreleased while many barriers follow, the head
    moves past these batches. The truncation then keeps them separately (:func:`~.log_state.kept_below`).

    Args:
        records: The live entries of the log, at least from its current head on.
        retained: The subtask's positions in the retained checkpoints.
        unreleased_from: Number of the first entry that may have unreleased handles; None without sinks.
        consumers: For each consumer its input position in the oldest retained checkpoint; 0 before it has started.
    """
    numbered, read_from = list(records), min(consumers, default=None)
    awaited = [number for number, record in numbered if is_awaited(record)]
    bounds = [*retained]
    if read_from is not None:
        bounds += [number for number, record in numbered if number >= read_from and _is_read(record)]
    head = max(0, min(bounds))
    if unreleased_from is None:
        return head
    unreleased = [number for number in awaited if unreleased_from <= number < head]
    deletable = sum(unreleased_from <= number < head for number, _ in numbered) - len(unreleased)
    factor = WORTH_KEEPING if len(unreleased) <= FEW else WORTH_KEEPING_MANY
    return head if deletable >= factor * len(unreleased) else unreleased[0]


def _is_read(record: Record) -> bool:
    return is_awaited(record) and (not isinstance(record, Batch) or bool(record.files))


def held_from(unreleased_from: int | None, consumers: Iterable[int]) -> int | None:
    """Return the position from which a consumer or sink may still need entries; None if there are neither."""
    starts = [*consumers, *(() if unreleased_from is None else (unreleased_from,))]
    return min(starts, default=None)


def data_head(consumers: Iterable[int]) -> tuple[int, ...]:
    """Return a tuple with the position below which every consumer has read the data; () without consumers.

    The entry below the lowest input position stays, because a consumer with a read limit may have read it in part.
    """
    positions = list(consumers)
    return (max(0, min(positions) - 1),) if positions else ()


def deletable_folders(records: Iterable[Numbered], start: int, head: int) -> list[str]:
    """Return the data folders of batches at positions from ``start`` to below ``head``. A folder has one batch (R5)."""
    folders = [
        (number, dirname(file.path)) for number, record in records if isinstance(record, Batch) for file in record.files
    ]
    needed = {folder for number, folder in folders if number >= head}
    return sorted({folder for number, folder in folders if start <= number < head} - needed)
