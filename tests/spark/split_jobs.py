"""Jobs with a source that is read by split."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.model.split import numbers
from airflow_provider_ckpt.sinks.sink import Sink
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.spark.harness import World
from tests.spark.jobs import IDS

EACH = 3


def splits(count: int) -> list[dict[str, Any]]:
    """Return ``count`` splits. Each of them stands for ``rows`` ids from ``first`` on."""
    return [{"id": f"part-{number}", "first": number * EACH, "rows": EACH} for number in range(count)]


def ids_of(given: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(i for split in given for i in range(split["first"], split["first"] + split["rows"]))


@dataclass
class SplitReader:
    """A user's function that records the requested splits.

    ``then``: called for each split. The driver and the tests share one process.
    """

    asked: list[str] = field(default_factory=list)
    then: Callable[[str], None] = lambda split: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        with self.lock:
            self.asked.append(split["id"])
        self.then(split["id"])
        first = split["first"]
        frame = read._spark.range(first, first + split["rows"])
        return frame.select("id", (F.col("id") % 3).alias("k"))


def sink_of_splits(
    world: World,
    given: Any,
    read: SplitReader | None = None,
    parallelism: int = 2,
    sink: Callable[[str], Sink] = FileSink,
) -> Job:
    """Return a job with splits directly into a sink, and a live feed."""
    job, reads = Job("splits"), read or SplitReader()

    @job.source(bounded=True, splits=given, parallelism=parallelism)
    def parts(read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        return reads(read, split)

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    job.sink("raw", parts, sink(world.path("raw")))
    job.sink("out", live, sink(world.path("out")))
    return job


def query_of_splits(
    world: World,
    given: Any,
    read: SplitReader | None = None,
    parallelism: int = 2,
    sink: Callable[[str], Sink] = FileSink,
    most: int | None = None,
) -> Job:
    """Return a job with splits and a live feed in one query."""
    job, reads = Job("splits"), read or SplitReader()

    @job.source(bounded=True, splits=given, parallelism=parallelism, max_splits_per_batch=most)
    def parts(read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        return reads(read, split)

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[parts, live])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, sink(world.path("out")))
    return job


def only_splits(world: World, given: Any, read: SplitReader | None = None, parallelism: int = 2) -> Job:
    """Return a job with splits only, through a query. It runs in batch mode."""
    job, reads = Job("splits"), read or SplitReader()

    @job.source(bounded=True, splits=given, parallelism=parallelism)
    def parts(read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        return reads(read, split)

    @job.transform(inputs=[parts])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path("out")))
    job.sink("raw", parts, FileSink(world.path("raw")))
    return job


def split_records(world: World, number: int) -> list[Numbered]:
    log = SubtaskLog(world.storage, subtask_log_path(world.job_id, "parts", number))
    log.load()
    return log.records()


def completed_splits(world: World, subtasks: int) -> dict[str, int]:
    """Return split -> the subtask with its entry. Check that each split has exactly one entry."""
    completed = [
        (name, number)
        for number in range(subtasks)
        for _, record in split_records(world, number)
        if isinstance(record, Batch)
        for name in record.splits
    ]
    assert max(Counter(split for split, _ in completed).values(), default=1) == 1, completed
    return dict(completed)


def done_splits(world: World, given: Sequence[dict[str, Any]], subtasks: int = 2) -> set[str]:
    """Return the completed splits.

    They are in the logs or in the last checkpoint. The head of a log may have passed an entry (R14).
    """
    state = world.state()
    covered = numbers(covered_splits(state, "parts", state.last_completed))
    return {given[number]["id"] for number in covered} | completed_splits(world, subtasks).keys()


def fail_at(split: str, at: str) -> None:
    if split == at:
        raise ConnectionError("the service is down")
