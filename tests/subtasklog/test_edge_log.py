"""Part of a producer's log that one edge shows."""

from __future__ import annotations

import uuid

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.subtasklog.log_reader import EdgeLog
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfData, Open, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

ATTEMPT = AttemptId(1, 0, "x")


def batch(number: int, *folders: str) -> Batch:
    files = tuple(PartitionFile(f"{folder}/data/{ATTEMPT}-{number}-n/part-0.parquet", 10) for folder in folders)
    return Batch(number, {"live": f"{number}"}, files=files, handles={"out": {"id": f"h{number}"}})


def log_of(*batches: Batch) -> SubtaskLog:
    log = SubtaskLog(MemoryStorage(f"edge-log-{uuid.uuid4().hex}"), "v/0/log")
    log.load()
    log.open(ATTEMPT, None)
    for record in batches:
        log.append_batch(record)
    return log


def test_r7_an_edge_hides_files_published_before_it_existed() -> None:
    log = log_of(batch(0, "p__a"), batch(1), batch(2, "layout-1"), batch(3, "layout-10"))
    log.end_of_data("finish")
    shown = {since: EdgeLog(log, since).records() for since in (0, 1, 2)}
    files = {
        since: [bool(record.files) for _, record in records if isinstance(record, Batch)]
        for since, records in shown.items()
    }
    assert files == {
        0: [True, False, True, True],
        1: [False, False, True, True],
        2: [False, False, False, True],
    }
    for records in shown.values():
        assert [number for number, _ in records] == [number for number, _ in log.records()]
        assert isinstance(records[0][1], Open)
        assert isinstance(records[-1][1], EndOfData)


def test_an_edge_shows_everything_else_of_the_log() -> None:
    log = log_of(batch(0, "p__b"), batch(1, "layout-1"))
    shown = EdgeLog(log, 1)
    assert (shown.path, shown.position, shown.has_ended) == (log.path, log.position, False)
    assert shown.records(2) == log.records(2)
    assert shown.records(1)[0][1] == Batch(0, {"live": "0"}, handles={"out": {"id": "h0"}})
