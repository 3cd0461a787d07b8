"""Entries of a log that are still needed (R7)."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.needed import (
    FEW,
    WORTH_KEEPING,
    WORTH_KEEPING_MANY,
    data_head,
    deletable_folders,
    log_head,
)
from airflow_provider_ckpt.subtasklog.records import Barrier, EndOfData, EndOfPartition, Record
from tests.subtasklog.samples import batch


def test_r7_the_slowest_consumer_decides_which_data_is_needed() -> None:
    assert data_head([9, 4, 7]) == (3,)
    assert data_head([9, 0]) == (0,)


def test_r7_an_entry_that_may_be_partly_read_stays() -> None:
    records = [(n, batch(n)) for n in range(6)]
    (head,) = data_head([4])
    assert deletable_folders(records, 0, head) == [f"b{n}" for n in range(3)]


def test_a_log_without_consumers_has_no_data_to_delete() -> None:
    assert data_head([]) == ()


def log_of(*batches: int) -> list[Numbered]:
    """Return thirty entries, batches at the given positions and barriers elsewhere."""
    return [(n, batch(n) if n in batches else Barrier(1, n, Snapshot(n, 0))) for n in range(30)]


def head(records: list[Numbered], retained: int, *consumers: int, unreleased: int | None = None) -> int:
    return log_head(records, retained=[retained], unreleased_from=unreleased, consumers=consumers)


def test_r7_unreleased_handles_pin_their_entries() -> None:
    records = log_of(4, 7)
    assert head(records, 8, unreleased=5) == 7
    assert head(records, 10, unreleased=4) == head(records, 8, unreleased=2) == 4
    assert head(records, 20) == 20


def test_r7_unreleased_handles_do_not_pin_many_barriers() -> None:
    """Handles stay below the head, entry by entry, if there are many barriers for each."""
    records = log_of(4, 7)
    assert [head(records, n, unreleased=4) for n in (8, 11, 12, 20)] == [4, 4, 12, 20]
    assert head(records, 20, 7, unreleased=0) == 7  # an entry that a consumer has not read holds the head
    gone = [record for record in records if record[0] in (4, 7) or record[0] >= 12]
    assert [head(gone, n, unreleased=4) for n in (13, 17, 18)] == [4, 4, 18]  # not at each checkpoint


def test_r7_many_unreleased_handles_are_passed_only_for_many_more_barriers() -> None:
    """Each entry below the head costs a request. Each entry after the head costs a five hundredth of two requests."""
    for many, times in ((FEW, WORTH_KEEPING), (FEW + 1, WORTH_KEEPING_MANY)):
        held: list[Numbered] = [(n, batch(n)) for n in range(many)]
        records = held + [(many + n, Barrier(1, n, Snapshot(many + n, 0))) for n in range(times * many)]
        assert head(records, len(records) - 1, unreleased=0) == 0
        assert head(records, len(records), unreleased=0) == len(records)


def test_r7_the_oldest_retained_checkpoint_and_every_consumer_hold_the_log() -> None:
    records = log_of(3, 6, 12, 15)
    assert head(records, 20, 7, 13, unreleased=25) == 12
    assert head(records, 10, 7, 13, unreleased=25) == 10
    assert head(records, 20, 0, unreleased=25) == 3
    assert log_head(records, retained=[20, 14, 30], unreleased_from=None, consumers=[]) == 14


def test_r7_barriers_of_an_idle_subtask_do_not_hold_the_log() -> None:
    """The subtask is idle: its consumers read nothing new, and it writes a barrier at each checkpoint."""
    assert head(log_of(3), 20, 4, unreleased=4) == 20


def test_r7_batches_without_rows_do_not_hold_the_log_for_consumers() -> None:
    """A filter drops all rows, so its reader publishes nothing and the reader's position does not move.

    The subtask's own sinks count each batch that they are given, with rows or without.
    """
    records: list[Numbered] = [(n, batch(n, files=0 if 3 < n < 25 else 1)) for n in range(28)]
    assert head(records, 28, 4) == 25
    assert head(records, 28, 2) == 2
    assert head(records, 28, 4, unreleased=10) == 10


@pytest.mark.parametrize("end", [EndOfData(), EndOfPartition()])
def test_r7_an_unread_end_of_data_holds_the_log(end: Record) -> None:
    records: list[Numbered] = [*log_of(3)[:9], (9, end)]
    assert head(records, 20, 4) == 9
    assert head(records, 20, 10) == 20


def test_the_last_batch_does_not_hold_the_log() -> None:
    """The entries that the state is folded from stay by themselves (tests/subtasklog/test_log_truncation.py)."""
    assert head(log_of(7), 25, unreleased=25) == 25


def test_only_batches_have_data_to_delete() -> None:
    records: list[Numbered] = [
        (0, batch(0, files=2)),
        (1, Barrier(1, 1, Snapshot(1, 0))),
        (2, batch(1, files=0)),
        (3, batch(2)),
    ]
    assert deletable_folders(records, 0, 3) == ["b0"]


def test_deleted_folders_are_not_deleted_again() -> None:
    records = [(n, batch(n)) for n in range(6)]
    assert deletable_folders(records, 2, 4) == ["b2", "b3"]
    assert deletable_folders(records, 4, 4) == deletable_folders(records, 4, 1) == []


def test_a_folder_that_an_entry_still_names_stays() -> None:
    assert deletable_folders([(0, batch(7)), (1, batch(8)), (2, batch(7))], 0, 2) == ["b8"]
