"""Readers of a subtask's log, which see the same whether the writer is in their process or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.errors import BelowHeadError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader, TailingLogReader
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


@pytest.fixture
def writer(tmp_path: Path) -> SubtaskLog:
    log = SubtaskLog(open_storage(tmp_path), "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))
    return log


@pytest.fixture(params=["local", "tailing"])
def reader(request: pytest.FixtureRequest, writer: SubtaskLog, tmp_path: Path) -> LogReader:
    return writer if request.param == "local" else TailingLogReader(open_storage(tmp_path), "log")


def test_a_reader_sees_entries_written_since_its_last_read(writer: SubtaskLog, reader: LogReader) -> None:
    assert [type(record) for _, record in reader.records()] == [Open]
    writer.append_batch(Batch(0, {}))
    writer.append_batch(Batch(1, {}))
    assert [number for number, _ in reader.records(2)] == [2]
    assert reader.position == 3
    assert not reader.has_ended
    writer.end_of_data("finish")
    assert reader.has_ended


def test_asking_for_the_position_reads_the_log(writer: SubtaskLog, reader: LogReader) -> None:
    writer.append_batch(Batch(0, {}))
    assert (reader.position, reader.path) == (2, "log")
    assert [number for number, _ in reader.records()] == [0, 1]


def test_r4_a_reader_drops_entries_that_a_later_open_voids(writer: SubtaskLog, tmp_path: Path) -> None:
    tail = TailingLogReader(open_storage(tmp_path), "log")
    writer.append_batch(Batch(0, {}))
    writer.append_batch(Batch(1, {}))
    assert len(tail.records()) == 3
    later = SubtaskLog(open_storage(tmp_path), "log")
    later.load()
    later.open(AttemptId(2, 0, "b"), continues_at=2)
    assert [record.batch_id for _, record in tail.records() if isinstance(record, Batch)] == [0]


def test_a_reader_refuses_a_log_truncated_beyond_its_position(writer: SubtaskLog, tmp_path: Path) -> None:
    tail = TailingLogReader(open_storage(tmp_path), "log")
    tail.records()
    for number in range(4):
        writer.append_batch(Batch(number, {}))
    LogTruncation(open_storage(tmp_path), "log", lambda: None).truncate(4, None)
    with pytest.raises(BelowHeadError):
        tail.records()
