"""Truncation of a log by a process that does not write it (R3, R7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog import subtask_log
from airflow_provider_ckpt.subtasklog.log_reader import LogReader, TailingLogReader
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, crash_points
from tests.subtasklog.samples import batch, batch_ids, loaded_log


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


@pytest.fixture
def writer(storage: Storage) -> SubtaskLog:
    """Return a log with an open and batches 0 to 5."""
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))
    for number in range(6):
        log.append_batch(batch(number))
    return log


def truncate(
    storage: Storage, head: int, check_fenced: Callable[[], None] = lambda: None, unreleased: int | None = None
) -> frozenset[int]:
    return LogTruncation(storage, "log", check_fenced).truncate(head, unreleased)


def test_a_writer_appends_after_another_process_truncated_the_log(writer: SubtaskLog, storage: Storage) -> None:
    for head in (3, 5):
        truncate(storage, head)
        writer.append_batch(batch(head + 3))
        writer.check_fenced()
    assert writer.barrier(1, 1).batch_id == 8
    again = loaded_log(storage)
    assert batch_ids(again) == [3, 4, 5, 6, 8]
    assert again.state.opened is not None
    assert again.open(AttemptId(2, 0, "b")).last_batch == batch(8)


@pytest.mark.parametrize("far", [False, True], ids=["writer", "reader elsewhere"])
def test_a_notified_reader_forgets_only_truncated_entries(writer: SubtaskLog, storage: Storage, far: bool) -> None:
    log: LogReader = TailingLogReader(storage, "log") if far else writer
    assert batch_ids(log) == [0, 1, 2, 3, 4, 5]
    log.forget(4, truncate(storage, 4))
    writer.append_batch(batch(6))
    assert log.records() == loaded_log(storage).records()
    assert batch_ids(log) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("far", [False, True], ids=["writer", "reader elsewhere"])
def test_r7_a_reader_keeps_unreleased_entries_without_notice(
    writer: SubtaskLog, storage: Storage, far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader notices by itself that the head has moved, and keeps the entries that it still needs."""
    monkeypatch.setattr(writer, "_check_head_at", 1)
    log: LogReader = TailingLogReader(storage, "log") if far else writer
    last = idle(writer, 20)
    assert batch_ids(log) == [0, 1, 2, 3, 4, 5]
    assert truncate(storage, last, unreleased=3) == {0, 3, 4, 5, 6}
    writer.check_fenced()
    for _ in range(20):  # a reader elsewhere checks the head now and then
        log.records()
    assert batch_ids(log) == batch_ids(loaded_log(storage)) == [2, 3, 4, 5]
    assert truncate(storage, idle(writer, 5), unreleased=None) == {0, 6}
    assert batch_ids(loaded_log(storage)) == [5]


def idle(writer: SubtaskLog, checkpoints: int) -> int:
    """Append so many barriers and return the position of the last."""
    barriers = len(writer.state.barriers)
    return [writer.barrier(1, barriers + number).position for number in range(checkpoints)][-1]


def test_r1_a_truncation_keeps_the_last_batch(writer: SubtaskLog, storage: Storage) -> None:
    """The next attempt must know that the batch is published, and with which offsets."""
    for _ in range(3):
        head = idle(writer, 50)
        truncate(storage, head)
        again = loaded_log(storage)
        assert again.state.last_batch == writer.state.last_batch == batch(5)
        assert again.state.snapshot_at(0) == writer.state.snapshot_at(0)
        assert [number for number, _ in again.records()] == [0, 6, head]


def test_a_former_last_batch_is_truncated(writer: SubtaskLog, storage: Storage) -> None:
    truncate(storage, idle(writer, 10))
    writer.append_batch(batch(6))
    truncate(storage, idle(writer, 10))
    assert batch_ids(loaded_log(storage)) == [6]


@pytest.mark.parametrize("last", [batch(6), replace(batch(6), files=())], ids=["with rows", "without rows"])
def test_r4_a_truncation_keeps_the_last_batch_of_a_checkpoint(
    writer: SubtaskLog, storage: Storage, last: Batch
) -> None:
    """A restore to the checkpoint makes the later batch void and resumes from the earlier one."""
    writer.append_batch(last)
    checkpoint = idle(writer, 10)
    writer.append_batch(batch(7))
    truncate(storage, checkpoint)
    again = loaded_log(storage)
    assert again.open(AttemptId(2, 0, "b"), continues_at=checkpoint + 1).last_batch == last
    assert again.barrier(2, 20).batch_id == 6


@pytest.mark.parametrize("closed", [False, True])
def test_r11_a_truncation_keeps_the_end_of_data(writer: SubtaskLog, storage: Storage, closed: bool) -> None:
    writer.end_of_data("finish")
    head = idle(writer, 50)
    if closed:
        writer.end_of_partition()
        head += 1
    truncate(storage, head)
    again = loaded_log(storage)
    assert (again.state.end_of_data, again.state.closed) == ("finish", closed)
    assert again.state.last_batch == batch(5)


def test_r4_a_truncation_keeps_no_void_entry(storage: Storage, writer: SubtaskLog) -> None:
    second = loaded_log(storage)
    second.open(AttemptId(2, 0, "b"), continues_at=3)
    head = idle(second, 50)
    truncate(storage, head)
    assert batch_ids(loaded_log(storage)) == [1]
    assert loaded_log(storage).state.last_batch == batch(1)


def test_a_truncation_that_dies_at_any_verb_loses_nothing(tmp_path: Path) -> None:
    """All readers see the same end of the log, before and after the next truncation."""
    verbs = Verbs()
    _truncated_twice(CrashingStorage(open_storage(tmp_path / "whole"), verbs=verbs))
    for at, when in crash_points(verbs.count):
        inner = open_storage(tmp_path / f"{at}-{when}")
        with pytest.raises(SimulatedCrash):
            _truncated_twice(CrashingStorage(inner, at, when))
        log = loaded_log(inner)
        last = log.state.last_batch
        if not inner.list("log") or log.state.opened is None:
            continue
        reader = TailingLogReader(inner, "log")
        assert reader.records() == log.records()
        log.open(AttemptId(9, 0, "z"))
        truncate(inner, log.position - 1)
        assert loaded_log(inner).state.last_batch == last, (at, when, verbs.log[at - 1])
        assert len(inner.list("log")) <= 5


def _truncated_twice(storage: Storage) -> None:
    log = loaded_log(storage)
    log.open(AttemptId(1, 0, "a"))
    for first in (0, 3):
        for number in range(first, first + 3):
            log.append_batch(batch(number))
        truncate(storage, idle(log, 4))


def test_a_tailing_reader_forgets_truncated_entries_by_itself(writer: SubtaskLog, storage: Storage) -> None:
    reader = TailingLogReader(storage, "log")
    assert batch_ids(reader) == [0, 1, 2, 3, 4, 5]
    truncate(storage, 5)
    reader.records()  # nothing is new, so it reads where the log begins
    assert reader.records() == loaded_log(storage).records()
    assert batch_ids(reader) == [3, 4, 5]


def test_a_writer_forgets_entries_that_another_process_truncated(
    writer: SubtaskLog, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer checks for a truncation now and then, together with the fence."""
    monkeypatch.setattr(subtask_log, "FORGET_EVERY", 10)
    log = loaded_log(storage)
    log.open(AttemptId(2, 0, "b"))
    head = idle(log, 30)
    truncate(storage, head)
    log.check_fenced()
    assert log.records() == loaded_log(storage).records()
    assert list(log.state.barriers) == [(1, 29)]
    assert log.state.last_batch == batch(5)


def test_r7_an_overtaken_driver_truncates_nothing(writer: SubtaskLog, storage: Storage) -> None:
    overtaken = Journal(storage, "job")
    overtaken.claim("t1", Worker(), 0.0)
    Journal(storage, "job").claim("t2", Worker(), 0.0)
    with pytest.raises(FencedError):
        truncate(storage, 4, overtaken.check_fenced)
    assert batch_ids(loaded_log(storage)) == [0, 1, 2, 3, 4, 5]


def test_a_head_beyond_the_log_is_refused(writer: SubtaskLog, storage: Storage) -> None:
    with pytest.raises(TerminalError, match="cannot be truncated up to"):
        truncate(storage, 8)
