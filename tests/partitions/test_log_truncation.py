"""The head of a log, moved by one who does not write it (R3, R7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.partitions.log_reader import LogReader, TailingLogReader
from airflow_provider_ckpt.partitions.log_truncation import LogTruncation
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.errors import NoSuchHeadError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.partitions.samples import batch


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


@pytest.fixture
def writer(storage: Storage) -> SubtaskLog:
    """Open, and batches 0 to 5 behind it."""
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))
    for number in range(6):
        log.publish(batch(number))
    return log


def truncate(storage: Storage, head: int, check_fenced: Callable[[], None] = lambda: None) -> None:
    LogTruncation(storage, "log", check_fenced).truncate(head)


def batches(log: LogReader) -> list[int]:
    return [record.batch_id for _, record in log.records() if isinstance(record, Batch)]


def loaded(storage: Storage) -> SubtaskLog:
    log = SubtaskLog(storage, "log")
    log.load()
    return log


def test_the_writer_appends_on_behind_a_head_that_somebody_else_has_moved(writer: SubtaskLog, storage: Storage) -> None:
    for head in (3, 5):
        truncate(storage, head)
        writer.publish(batch(head + 3))
        writer.check_fenced()
    assert writer.barrier(1, 1).batch_id == 8
    again = loaded(storage)
    assert batches(again) == [4, 5, 6, 8]
    assert again.state.opened is not None
    assert again.open(AttemptId(2, 0, "b")).last_batch == batch(8)


@pytest.mark.parametrize("far", [False, True], ids=["writer", "reader elsewhere"])
def test_who_is_told_forgets_what_is_gone_and_nothing_else(writer: SubtaskLog, storage: Storage, far: bool) -> None:
    log: LogReader = TailingLogReader(storage, "log") if far else writer
    assert batches(log) == [0, 1, 2, 3, 4, 5]
    truncate(storage, 4)
    log.forget(4)
    writer.publish(batch(6))
    assert log.records() == loaded(storage).records()
    assert batches(log) == [3, 4, 5, 6]


def test_r7_a_driver_that_was_overtaken_truncates_nothing(writer: SubtaskLog, storage: Storage) -> None:
    overtaken = Journal(storage, "job")
    overtaken.claim("t1", Worker(), 0.0)
    Journal(storage, "job").claim("t2", Worker(), 0.0)
    with pytest.raises(FencedError):
        truncate(storage, 4, overtaken.check_fenced)
    assert batches(loaded(storage)) == [0, 1, 2, 3, 4, 5]


def test_a_head_beyond_the_log_is_refused(writer: SubtaskLog, storage: Storage) -> None:
    with pytest.raises(NoSuchHeadError):
        truncate(storage, 8)
