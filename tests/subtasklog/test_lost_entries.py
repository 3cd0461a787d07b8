"""Entries whose files are gone, and logs that continue without them."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.lost_entries import lost_entries
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage


@pytest.fixture
def storage() -> MemoryStorage:
    made = MemoryStorage("memory://lost-entries")
    made.delete_tree("")
    return made


def split(number: int, storage: MemoryStorage) -> Batch:
    storage.create(f"partition/data/{number}.parquet", b"x" * (number + 1))
    file = PartitionFile(f"data/{number}.parquet", number + 1)
    return Batch(number, {}, files=(file,), splits=(f"s{number}",))


@pytest.fixture
def log(storage: MemoryStorage) -> SubtaskLog:
    """Return a log of four splits at 1 … 4, and their end."""
    made = SubtaskLog(storage, "log")
    made.load()
    made.open(AttemptId(1, 0, "a"))
    for number in range(4):
        made.append_batch(split(number, storage))
    made.end_of_data("finish")
    return made


def splits(log: SubtaskLog | TailingLogReader) -> list[str]:
    return [name for _, record in log.records() if isinstance(record, Batch) for name in record.splits]


def test_an_entry_with_a_missing_or_truncated_file_is_lost(storage: MemoryStorage, log: SubtaskLog) -> None:
    assert lost_entries(storage, "partition", log.records()) == []
    storage.delete("partition/data/1.parquet")
    storage.replace("partition/data/3.parquet", b"")
    assert lost_entries(storage, "partition", log.records()) == [2, 4]


def test_entries_of_an_unreachable_folder_are_not_lost(storage: MemoryStorage, log: SubtaskLog) -> None:
    class Away(WrappedStorage):
        def files(self, path: str) -> Sizes:
            raise StorageTransientError(verb="list", uri=path, reason="away")

    with pytest.raises(StorageTransientError):
        lost_entries(Away(storage), "partition", log.records())


def test_the_next_attempt_voids_lost_entries_and_continues(storage: MemoryStorage, log: SubtaskLog) -> None:
    again = SubtaskLog(storage, "log")
    again.load()
    again.open(AttemptId(2, 0, "b"), None, ((2, 3), (4, 5)))
    assert not again.has_ended
    assert splits(again) == ["s0", "s2"]
    assert again.state.last_batch is not None
    again.append_batch(Batch(again.state.last_batch.batch_id + 1, {}, splits=("s1",)))
    again.append_batch(Batch(again.state.last_batch.batch_id + 1, {}, splits=("s3",)))
    again.end_of_data("finish")
    for reader in (again, TailingLogReader(storage, "log")):
        assert splits(reader) == ["s0", "s2", "s1", "s3"]
        assert reader.has_ended


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_late_end_of_data_before_the_voiding_open_is_void(storage: MemoryStorage, is_closed: bool) -> None:
    """A writer that was overtaken, but is not fenced yet, writes the end. If the end counted, no subtask would read the
    lost split."""
    before = SubtaskLog(storage, "log")
    before.load()
    before.open(AttemptId(1, 0, "a"))
    for number in range(2):
        before.append_batch(split(number, storage))
    again = SubtaskLog(storage, "log")
    again.load()
    before.append_batch(split(2, storage))
    before.end_of_data("finish")
    if is_closed:
        before.end_of_partition()
    again.open(AttemptId(2, 0, "b"), None, ((1, 2),))
    assert (again.has_ended, again.state.closed) == (False, False)
    assert splits(again) == ["s1", "s2"]


def test_void_entries_stay_void_for_later_attempts(storage: MemoryStorage, log: SubtaskLog) -> None:
    for number in (2, 3):
        log = SubtaskLog(storage, "log")
        log.load()
        log.open(AttemptId(number, 0, "b"), None, ((2, 3),) if number == 2 else ())
    assert splits(log) == ["s0", "s2", "s3"]
