"""The name of the file that a row comes from.

It is known in the query that reads the source, and refused after a result partition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from tests.spark.harness import World
from tests.spark.jobs import IDS

ASKS = {
    "input_file_name": lambda rows: rows.withColumn("file", F.input_file_name()),
    "in an expression": lambda rows: rows.where(F.length(F.concat(F.lit("a"), F.input_file_name())) > 0),
    "input_file_block_start": lambda rows: rows.selectExpr("*", "input_file_block_start() AS start"),
    "_metadata": lambda rows: rows.withColumn("file", F.col("_metadata.file_path")),
    "whole _metadata": lambda rows: rows.select("id", "_metadata"),
}


def job_of(world: World, asks: Any, *, cut: bool, bounded: bool = False) -> Job:
    job = Job("files")
    rows = job.source(uid="rows", bounded=bounded)(lambda read: read.schema(IDS).parquet(world.path("in")))
    named = job.transform(inputs=[rows], uid="named")(asks)
    job.sink("out", named, FileSink(world.path("out")))
    if cut:
        job.sink("raw", rows, FileSink(world.path("raw")))
    return job


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("asks", ASKS)
def test_file_names_after_a_result_partition_are_refused(
    spark: SparkSession, world: World, asks: str, mode: str
) -> None:
    world.put_ids("in", 1, 2)
    job = job_of(world, ASKS[asks], cut=True, bounded=mode == "batch")
    with pytest.raises(UnsupportedQueryError, match=r"in the query of 'named' .*the rows of 'rows' come through"):
        plan_job(spark, job, world.options(mode=mode))
    assert plan_job(spark, job_of(world, ASKS[asks], cut=False, bounded=mode == "batch"), world.options(mode=mode))


def test_a_users_own_column_with_such_a_name_is_allowed(spark: SparkSession, world: World) -> None:
    job = Job("files")

    @job.source
    def rows(read: DataStreamReader) -> DataFrame:
        mine = read.schema("id long, _metadata string").parquet(world.path("in"))
        return mine.withColumn("input_file_name()", F.lit(1))

    named = job.transform(inputs=[rows], uid="named")(lambda rows: rows.select("_metadata", "`input_file_name()`"))
    job.sink("out", named, FileSink(world.path("out")))
    job.sink("raw", rows, FileSink(world.path("raw")))
    assert plan_job(spark, job, world.options())


@pytest.mark.slow
def test_a_file_name_taken_in_the_source_passes_through(world: World) -> None:
    world.put_ids("in", 3, 2)
    job = Job("files")
    rows = job.source(uid="rows", bounded=True)(
        lambda read: read.schema(IDS).parquet(world.path("in")).withColumn("file", F.input_file_name())
    )
    named = job.transform(inputs=[rows], uid="named")(lambda rows: rows.withColumn("again", F.col("file")))
    job.sink("out", named, FileSink(world.path("out")))
    job.sink("raw", rows, FileSink(world.path("raw")))
    run = world.run(job, mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    for row in world.released():
        assert row["file"] == row["again"] == f"file://{Path(world.path('in'))}/{row['id'] // 2 * 2:06d}.parquet"
    assert {row["id"]: row["file"] for row in world.released("raw")} == {
        row["id"]: row["file"] for row in world.released()
    }
