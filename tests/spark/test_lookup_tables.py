"""Files that a streaming query looks up are named at its start, and their changes are seen after its next start."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.preparation.notices import looks_up_files
from tests.spark.harness import Run, World


def job(world: World, spark: SparkSession) -> Job:
    job = Job("priced")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id long").parquet(world.path("live"))

    @job.transform(inputs=[live])
    def priced(rows: DataFrame) -> DataFrame:
        prices = spark.read.schema("id long, price long").parquet(world.path("prices"))
        more = spark.createDataFrame([(1, "one")], "id long, name string")
        return rows.join(prices, "id", "left").join(more, "id", "left")

    job.sink("out", priced, FileSink(world.path("out")))
    return job


def run(world: World, spark: SparkSession, rows: int) -> Run:
    return world.run(job(world, spark), world.ask("stop", lambda: world.released_count() >= rows))


def test_a_changed_lookup_table_is_named_and_read_at_the_next_start(spark: SparkSession, world: World) -> None:
    world.put("prices", "1", [{"id": 1, "price": 10}])
    world.put("live", "1", [{"id": 1}, {"id": 2}])
    [warning] = [line["message"] for line in run(world, spark, 2).of("warning") if "looks up" in line["message"]]
    assert f"the query of priced looks up files in file:{world.path('prices')}, listed at 20" in warning
    world.put("prices", "2", [{"id": 2, "price": 20}])
    world.put("live", "2", [{"id": 2}])
    run(world, spark, 3)
    joined: list[Any] = sorted((row["id"], row["price"]) for row in world.released() if row["price"] is not None)
    assert joined == [(1, 10), (2, 20)]


def test_a_lookup_table_without_files_is_named_as_empty(spark: SparkSession, world: World) -> None:
    world.put("live", "1", [{"id": 1}])
    options = RunOptions(job="tests:job", root=str(world.root), job_id="job")
    plan = plan_job(spark, job(world, spark), options)
    assert plan.lookups == {"priced": (f"file:{world.path('prices')} (which holds no file)",)}


def test_the_notice_of_a_lookup_has_the_time_of_the_listing(spark: SparkSession, world: World) -> None:
    world.put("prices", "1", [{"id": 1, "price": 10}])
    world.put("live", "1", [{"id": 1}])
    priced = job(world, spark)
    options = RunOptions(job="tests:job", root=str(world.root), job_id="job")
    plan = plan_job(spark, priced, options)
    assert plan.lookups == {"priced": (f"file:{world.path('prices')}",)}
    (notice,) = looks_up_files(plan, 0.0, "job", "/lake/ckpt")
    assert "listed at 1970-01-01 00:00:00+00:00" in notice
    assert "`ckpt upgrade job --root /lake/ckpt` starts" in notice
