"""Batches from one query to another with event time: they are read whole, because their files have no time order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

pytestmark = [pytest.mark.slow, pytest.mark.spark]
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILES = 8


@pytest.fixture
def task_per_file(spark: SparkSession) -> Iterator[None]:
    """Give each file a task of its own, as in a folder of large files.

    Spark reads, and so writes, the largest file first. Here this is the newest file.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    yield
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


def read(reader: Any, folder: str) -> DataFrame:
    rows: DataFrame = reader.schema("id long, ts timestamp").parquet(folder)
    return rows


def late_if_split(world: World, *, watermark_at_source: bool) -> Job:
    """Return a job whose rows are never later than the delay in reading order.

    It reads all files in one batch.
    """
    job, folder = Job("whole"), world.path("live")
    mark = ("ts", "20 seconds")

    @job.source(uid="live", chain=False, watermark=mark if watermark_at_source else None)
    def live(reader: Any) -> DataFrame:
        return read(reader, folder)

    @job.transform(inputs=live, uid="between", chain=False)
    def between(rows: DataFrame) -> DataFrame:
        return rows

    @job.transform(inputs=between, uid="first")
    def first(rows: DataFrame) -> DataFrame:
        marked = rows if watermark_at_source else rows.withWatermark(*mark)
        return marked.dropDuplicates(["id", "ts"])

    job.sink("out", first, FileSink(world.path("out")))
    return job


@pytest.mark.parametrize("watermark_at_source", [True, False])
def test_r13_a_batch_above_the_read_limit_makes_none_of_its_rows_late(
    world: World, task_per_file: None, watermark_at_source: bool
) -> None:
    for number in range(FILES):
        at = BEGIN + timedelta(seconds=10 * number)
        # the newest file is the largest, with the most rows, and their ids do not compress
        rows = [{"id": (number * 1000 + i) * 7_919_777_777_777, "ts": at} for i in range(20 * (number + 1))]
        world.put("live", f"{number}", rows)
    done = world.ask("drain", lambda: world.read_up_to("live", "live") >= 0)
    run = world.run(late_if_split(world, watermark_at_source=watermark_at_source), done, max_bytes_per_trigger=1)
    assert run.status == "FINISHED", run.cause
    assert world.released_count() == sum(20 * (number + 1) for number in range(FILES))
