"""Readers of a journal that may have been replaced: its root was deleted and created again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.events import CheckpointTriggered, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import journal_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.costs.meter import Meter


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def written(storage: Storage, checkpoints: int, attempt: str = "t1") -> Journal:
    """Write a claim, the status, and an entry for each checkpoint."""
    journal = Journal(storage, "job")
    journal.claim(attempt, Worker(), 1.0)
    journal.write(StatusChanged(JobStatus.RUNNING, 1.0))
    for number in range(1, checkpoints + 1):
        journal.write(CheckpointTriggered(number, 1.0))
        journal.flush()
    return journal


@pytest.fixture
def reader(storage: Storage) -> Journal:
    written(storage, 2)
    reader = Journal(storage, "job")
    assert reader.reread().last_triggered == 2
    return reader


@pytest.mark.parametrize("checkpoints", [0, 1, 2, 3, 9])
def test_a_recreated_journal_is_read_from_the_start(storage: Storage, reader: Journal, checkpoints: int) -> None:
    storage.delete_tree(journal_path("job"))
    written(storage, checkpoints, "t2")
    state = reader.reread()
    assert (state.attempt, state.last_triggered) == ("t2", checkpoints)
    assert reader.reread().last_triggered == checkpoints


def test_a_deleted_journal_has_an_empty_state(storage: Storage, reader: Journal) -> None:
    storage.delete_tree(journal_path("job"))
    assert (reader.reread().epoch, reader.reread().damage) == (0, [])


def test_a_continued_journal_is_read_from_the_last_entry(storage: Storage) -> None:
    writer, meter = written(storage, 2), Meter(storage)
    reader = Journal(meter, "job")
    reader.reread()
    writer.write(CheckpointTriggered(3, 1.0))
    writer.flush()
    meter.taken()
    assert reader.reread().last_triggered == 3
    assert meter.requests == {"read": 3}  # the next entry, its successor, and the last entry read before


def test_a_compacted_journal_rereads_to_the_same_state(storage: Storage, reader: Journal) -> None:
    writer = written(storage, 4, "t2")
    writer.compact(1.0)
    assert reader.reread().last_triggered == writer.state.last_triggered


def test_an_idle_reader_follows_a_compaction(
    storage: Storage,
) -> None:
    """The entry that the reader waits for was deleted, which looks as if it had never existed."""
    writer, reader = written(storage, 2), Journal(storage, "job")
    for _ in range(3):
        reader.refresh()
    writer.write(CheckpointTriggered(3, 1.0))
    writer.compact(1.0)
    assert reader.refresh() == writer.state


@pytest.mark.parametrize("damage", [lambda whole: whole[:9], lambda whole: b"[]"])
def test_damage_to_an_entry_that_was_read_is_reported(
    storage: Storage, reader: Journal, damage: Callable[[bytes], bytes]
) -> None:
    last = f"{journal_path('job')}/{storage.list(journal_path('job'))[-1]}"
    storage.replace(last, damage(storage.read(last)))
    assert reader.reread().damage
