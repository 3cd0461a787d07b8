"""The fold of a subtask log: what its records say together."""

from __future__ import annotations

import bisect
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.split import Range, is_in, union
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.partitions.records import (
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
    """Mutable while the log is read; one per :class:`~.subtask_log.SubtaskLog`."""

    opened: Open | None = None
    last_batch: Batch | None = None
    last_batch_position: int = -1
    barriers: dict[tuple[int, int], Snapshot] = field(default_factory=dict)
    """(epoch, checkpoint) -> snapshot."""
    end_of_data: EndMode | None = None
    """Mode of the end of data, None while more batches may follow."""
    closed: bool = False
    tries: dict[str, int] = field(default_factory=dict)
    """:attr:`SupervisedTry.of` -> the latest that has opened the log."""

    def has_later_try(self, than: SupervisedTry | None) -> bool:
        """Of the same, whatever has opened the log since."""
        return than is not None and self.tries.get(than.of, than.number) > than.number

    def apply(self, record: Record, number: int) -> None:
        if isinstance(record, Open):
            self.opened = record
            if record.supervised is not None:
                of, number = record.supervised.of, record.supervised.number
                self.tries[of] = max(number, self.tries.get(of, number))
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
        """Barriers below ``head`` are nobody's any more."""
        self.barriers = {key: one for key, one in self.barriers.items() if one.position >= head}

    def snapshot_at(self, position: int) -> Snapshot:
        """What a barrier at ``position`` folds: everything published before it."""
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
    """Half-open ranges of entry numbers that a later Open rewound behind (R4), or named."""
    found: list[Range] = []
    for number, record in records:
        if isinstance(record, Open):
            found += record.voids
            if record.continues_at is not None:
                found.append((record.continues_at, number))
    return found


def live(records: Iterable[Numbered]) -> list[Numbered]:
    """The records without the void ones; Open records are never void (they fence, R3)."""
    kept = list(records)
    voids = union(void_ranges(kept), ())
    return [(number, record) for number, record in kept if isinstance(record, Open) or not is_in(voids, number)]


def from_number(records: list[Numbered], start: int) -> list[Numbered]:
    """The live ones with number >= ``start``, of all that were read, in order."""
    if void_ranges(records):
        return [(number, record) for number, record in live(records) if number >= start]
    return records[bisect.bisect_left(records, start, key=lambda one: one[0]) :]


def from_epoch(records: list[Numbered], epoch: int) -> list[Numbered]:
    """What attempts of that epoch or later ones have written; 0: all. ``records``: from the first one on, as Open
    records stay in a log for ever."""
    opened = (number for number, one in records if isinstance(one, Open) and one.epoch >= epoch)
    start = 0 if epoch == 0 else next(opened, None)
    return [] if start is None else from_number(records, start)


def is_awaited(record: Record) -> bool:
    """Somebody besides the subtask itself wants it: who reads its output, or releases it."""
    return isinstance(record, (Batch, EndOfData, EndOfPartition))


def kept_below(records: Iterable[Numbered], head: int, unreleased_from: int | None) -> list[int]:
    """Numbers of the live entries below ``head`` that whoever truncates the log leaves (R7), however long ago they
    were.

    What the log is folded from at any position from there on: the last batch, and the ends. An idle subtask only puts
    barriers, and one that goes back to a checkpoint knows its last batch from them. The last batch with rows: whoever
    reads them may be in the midst of it. And the batches from ``unreleased_from`` on: a sink has still to release
    them."""
    before = [(number, record) for number, record in live(records) if number < head and is_awaited(record)]
    batches = [number for number, record in before if isinstance(record, Batch)]
    ends = [number for number, record in before if not isinstance(record, Batch)]
    unreleased = [] if unreleased_from is None else [number for number in batches if number >= unreleased_from]
    with_rows = [number for number, record in before if isinstance(record, Batch) and record.files]
    return sorted({*batches[-1:], *with_rows[-1:], *ends, *unreleased})


def without_forgotten(records: list[Numbered], head: int, kept: Container[int]) -> list[Numbered]:
    """What is left of them when the log was truncated at ``head``, and those numbers were kept: Open records stay
    (R3)."""
    return [one for one in records if one[0] >= head or one[0] in kept or isinstance(one[1], Open)]


def fold(records: Iterable[Numbered]) -> LogState:
    state = LogState()
    for number, record in live(records):
        state.apply(record, number)
    return state
