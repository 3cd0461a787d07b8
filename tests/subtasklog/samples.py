"""Records for tests: a sample of each kind, and short ways to make more."""

from __future__ import annotations

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import (
    Barrier,
    Batch,
    EndOfData,
    EndOfPartition,
    Open,
    PartitionFile,
    Record,
)
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def batch(number: int, *, files: int = 1, at: int | None = None, inputs: dict[str, int] | None = None) -> Batch:
    """Return micro-batch ``number``. ``at`` is the source's offset, if it differs from the number."""
    return Batch(
        batch_id=number,
        offsets={"live": f'{{"logOffset":{number if at is None else at}}}'},
        inputs=inputs or {},
        files=tuple(PartitionFile(f"b{number}/part-{index}.parquet", 100 + index) for index in range(files)),
    )


def one_record_of_each() -> list[Record]:
    """Return the records of a short life, in order. ``tests/golden/subtask-log-v1`` holds them, too."""
    published = Batch(
        batch_id=7,
        offsets={"history": '{"logOffset":3}', "live": '{"logOffset":11}'},
        inputs={"orders__joined": 12},
        files=(PartitionFile("joined__report/data/0002-ab-7-cd/part-0.parquet", 2048),),
        handles={"lake": {"id": "0002-ab-7-cd", "rows": 3}},
        watermark=1_700_000_000_000,
        ended=("history",),
    )
    snapshot = Snapshot(
        position=3,
        batch_id=7,
        offsets=published.offsets,
        inputs=published.inputs,
        watermark=published.watermark,
        ended=published.ended,
    )
    return [
        Open(AttemptId(1, 0, "aa"), 1, "0001-aa"),
        Open(AttemptId(2, 0, "ab"), 2, "0002-ab", continues_at=1),
        published,
        Barrier(2, 5, snapshot),
        EndOfData("drain"),
        Barrier(2, 6, Snapshot(5, 7, published.offsets, published.inputs, published.watermark, ("history",), True)),
        EndOfPartition(),
    ]


def loaded_log(storage: Storage) -> SubtaskLog:
    """Load the log under "log", as the next attempt does."""
    log = SubtaskLog(storage, "log")
    log.load()
    return log


def batch_ids(log: LogReader) -> list[int]:
    """Return the ids of the batches in the log's entries."""
    return [record.batch_id for _, record in log.records() if isinstance(record, Batch)]
