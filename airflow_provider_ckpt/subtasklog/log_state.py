"""The state of a subtask's log, computed from its records."""

from __future__ import annotations

import bisect
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.split import Range, is_in, union
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.subtasklog.records import (
    Barrier,
    Batch,
    EndMode,
    EndOfData,
    EndOfPartition,
    Open,
    Record,
)

Numbered = tuple[int, Record]


@dataclass
class LogState:
    """The state of one log, which changes while the log is read."""

    opened: Open | None = None
    last_batch: Batch | None = None
    last_batch_position: int = -1
    barriers: dict[tuple[int, int], Snapshot] = field(default_factory=dict)
    """(epoch, checkpoint) of a barrier in the log → its snapshot."""
    end_of_data: EndMode | None = None
    """Mode of the end of data; None while more batches may follow."""
    closed: bool = False
    tries: dict[str, int] = field(default_factory=dict)
    """Task of the supervisor (:attr:`SupervisedTry.of`) → number of the latest try of this task that has opened the
    log."""

    def has_later_try(self, than: SupervisedTry | None) -> bool:
        """Return True if a later try of the task of ``than`` has ever opened the log; False if ``than`` is None."""
        return than is not None and self.tries.get(than.of, than.number) > than.number

    def apply(self, record: Record, number: int) -> None:
        """Apply the record of the entry ``number`` to the state."""
        if isinstance(record, Open):
            self.opened = record
            if record.supervised is not None:
                of, try_number = record.supervised.of, record.supervised.number
                self.tries[of] = max(try_number, self.tries.get(of, try_number))
        elif isinstance(record, Batch):
            self.last_batch = record
            self.last_batch_position = number
        elif isinstance(record, Barrier):
            self.barriers[record.epoch, record.checkpoint] = record.snapshot
        elif isinstance(record, EndOfData):
            self.end_of_data = record.mode
        elif isinstance(record, EndOfPartition):
            self.closed = True

    def forget(self, head: int) -> None:
        """Drop the barriers at positions below ``head`` from memory."""
        self.barriers = {key: barrier for key, barrier in self.barriers.items() if barrier.position >= head}

    def snapshot_at(self, position: int) -> Snapshot:
        """Return the snapshot for a barrier at the next ``position``: the state after all entries before it."""
        batch = self.last_batch
        finished = self.end_of_data is not None
        if batch is None:
            return Snapshot(position=position, batch_id=None, finished=finished)
        return Snapshot(
            position=position,
            batch_id=batch.batch_id,
            offsets=batch.offsets,
            inputs=batch.inputs,
            watermark=batch.watermark,
            late_rows=batch.late_rows,
            times=batch.times,
            malformed=batch.malformed,
            ended=batch.ended,
            finished=finished,
        )


def void_ranges(records: Iterable[Numbered]) -> list[Range]:
    """Return half-open ranges of the entry numbers that a later Open has made void.

    An Open voids the earlier entries from its ``continues_at`` on (R4), and the entries in its ``voids``.
    """
    ranges: list[Range] = []
    for number, record in records:
        if isinstance(record, Open):
            ranges += record.voids
            if record.continues_at is not None:
                ranges.append((record.continues_at, number))
    return ranges


def live(records: Iterable[Numbered]) -> list[Numbered]:
    """Return the records that are not void. Open records are never void, because they fence (R3)."""
    numbered = list(records)
    voids = union(void_ranges(numbered), ())
    return [(number, record) for number, record in numbered if isinstance(record, Open) or not is_in(voids, number)]


def from_number(records: list[Numbered], start: int) -> list[Numbered]:
    """Return the live records with number >= ``start``, in order. ``records`` must have every Open of the log."""
    if void_ranges(records):
        return [(number, record) for number, record in live(records) if number >= start]
    return records[bisect.bisect_left(records, start, key=lambda numbered: numbered[0]) :]


def from_epoch(records: list[Numbered], epoch: int) -> list[Numbered]:
    """Return the live records that attempts of ``epoch`` or later have written; for epoch 0 all live records.

    ``records`` must begin with the log's first record, because Open records stay in a log for ever.
    """
    opened = (number for number, record in records if isinstance(record, Open) and record.epoch >= epoch)
    start = 0 if epoch == 0 else next(opened, None)
    return [] if start is None else from_number(records, start)


def is_awaited(record: Record) -> bool:
    """Return True if a reader or a release of the subtask's output needs the record."""
    return isinstance(record, (Batch, EndOfData, EndOfPartition))


def kept_below(records: Iterable[Numbered], head: int, unreleased_from: int | None) -> list[int]:
    """Return the numbers of live entries below ``head`` that a truncation must not delete (R7), in order.

    The last batch and the ends stay, because the log's state needs them. The last batch with rows stays because a
    consumer may be reading it. Batches from ``unreleased_from`` on stay because a sink must still release them.
    """
    below = [(number, record) for number, record in live(records) if number < head and is_awaited(record)]
    batches = [number for number, record in below if isinstance(record, Batch)]
    ends = [number for number, record in below if not isinstance(record, Batch)]
    unreleased = [] if unreleased_from is None else [number for number in batches if number >= unreleased_from]
    with_rows = [number for number, record in below if isinstance(record, Batch) and record.files]
    return sorted({*batches[-1:], *with_rows[-1:], *ends, *unreleased})


def without_forgotten(records: list[Numbered], head: int, kept: Container[int]) -> list[Numbered]:
    """Return the records that remain after a truncation: numbers from ``head`` on or in ``kept``, and Opens (R3)."""
    return [entry for entry in records if entry[0] >= head or entry[0] in kept or isinstance(entry[1], Open)]


def fold(records: Iterable[Numbered]) -> LogState:
    state = LogState()
    for number, record in live(records):
        state.apply(record, number)
    return state
