"""Inputs of a union with and without event time, and queries that change when an input has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from tests.spark.harness import World
from tests.spark.jobs import IDS, timed
from tests.spark.windows import counted

MARK = ("ts", "1 second")
ORDERS = pytest.mark.parametrize("order", [["live", "history"], ["history", "live"]], ids=" first, ".join)


def windows(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
    return counted.select(F.unix_seconds("window.start").alias("id"), "n")


def job_of(
    world: World,
    order: list[str],
    then: Callable[[DataFrame], DataFrame] = windows,
    *,
    output_mode: Any = "append",
    live: dict[str, Any] | None = None,
    **history: Any,
) -> Job:
    """Return a job that unites history and a feed in an order. A row's id is its event time in seconds."""
    job = Job("united")

    def reads(folder: str) -> Any:
        return lambda read: timed(read.schema(IDS).parquet(world.path(folder)))

    job.source(bounded=True, uid="history", **{"max_files_per_trigger": 1, **history})(reads("history"))
    job.source(uid="live", **{"max_files_per_trigger": 1, **(live or {})})(reads("live"))
    made = job.transform(inputs=order, uid="made", output_mode=output_mode)(then)
    job.sink("out", made, FileSink(world.path("out")))
    return job


@pytest.mark.slow
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
@ORDERS
def test_history_without_event_time_follows_the_live_source(world: World, order: list[str], chain: bool) -> None:
    for first in (20, 10, 0):  # the latest rows are read first
        world.put_ids("history", 1, 10, first)
    world.put_ids("live", 3, 10, 1_000)
    job = job_of(world, order, live={"watermark": MARK}, chain=chain)
    run = world.run(job, world.ask("drain", lambda: bool(world.state().dropped)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == dict.fromkeys([0, 10, 20, 1_000, 1_010, 1_020], 10)
    assert world.late_rows() == 0


@ORDERS
def test_a_live_source_without_event_time_is_named_in_the_refusal(
    spark: SparkSession, world: World, order: list[str]
) -> None:
    job = job_of(world, order, watermark=MARK)
    with pytest.raises(UnsupportedQueryError, match=r"column 'ts', which 'history' has and 'live' has not"):
        plan_job(spark, job, world.options())


@ORDERS
def test_history_in_order_needs_a_watermark_of_its_own(spark: SparkSession, world: World, order: list[str]) -> None:
    job = job_of(world, order, live={"watermark": MARK}, in_order=True)
    with pytest.raises(UnsupportedQueryError, match=r"'live' has and 'history' has not"):
        plan_job(spark, job, world.options())


def remembered(timeout: str) -> Callable[[DataFrame], DataFrame]:
    def first(key: Any, frames: Any, state: Any) -> Any:
        yield from frames

    return lambda rows: rows.groupBy("k").applyInPandasWithState(first, "k long", "n long", "append", timeout)


HARMLESS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "by id": lambda rows: rows.dropDuplicates(["id"]),
    "stateless": lambda rows: rows.where("id > 0"),
    "without timers": remembered("NoTimeout"),
}


def test_event_time_timers_need_event_time_on_each_input(spark: SparkSession, world: World) -> None:
    job = job_of(world, ["history", "live"], remembered("EventTimeTimeout"), watermark=MARK)
    with pytest.raises(UnsupportedQueryError, match="'live' has not"):
        plan_job(spark, job, world.options())


@ORDERS
@pytest.mark.parametrize("then", HARMLESS.values(), ids=HARMLESS)
def test_inputs_may_differ_if_the_query_uses_no_event_time(
    spark: SparkSession, world: World, order: list[str], then: Callable[[DataFrame], DataFrame]
) -> None:
    for marks in ({"live": {"watermark": MARK}}, {"watermark": MARK}):
        assert plan_job(spark, job_of(world, order, then, **marks), world.options())


@ORDERS
def test_delays_for_duplicates_must_be_equal(spark: SparkSession, world: World, order: list[str]) -> None:
    """Spark uses the delay of the first input. Without this input it uses another delay."""
    marks: dict[str, Any] = {"watermark": MARK, "live": {"watermark": ("ts", "5 seconds")}}
    within = job_of(world, order, lambda rows: rows.dropDuplicatesWithinWatermark(["k"]), **marks)
    if order[0] == "history":
        with pytest.raises(UnsupportedQueryError, match=r"'history' has ended.*duplicates within 5 seconds"):
            plan_job(spark, within, world.options())
    assert plan_job(spark, job_of(world, order, **marks), world.options())


def test_a_query_with_other_columns_without_history_is_refused(spark: SparkSession, world: World) -> None:
    def as_it_comes(rows: DataFrame) -> DataFrame:
        is_whole = "Union" in rows._jdf.queryExecution().analyzed().toString()
        return rows.withColumn("whole", F.lit(1)) if is_whole else rows

    with pytest.raises(UnsupportedQueryError, match=r"'made' .*'history' has ended.*it would output"):
        plan_job(spark, job_of(world, ["history", "live"], as_it_comes), world.options())


def test_each_set_of_ended_inputs_is_tried(spark: SparkSession, world: World) -> None:
    """The query changes only without both histories."""
    job = Job("three")
    for uid in ("old", "older"):
        job.source(bounded=True, uid=uid)(lambda read, uid=uid: read.schema(IDS).parquet(world.path(uid)))
    job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))

    @job.transform(inputs=["old", "older", "live"])
    def made(rows: DataFrame) -> DataFrame:
        return rows if "Union" in rows._jdf.queryExecution().analyzed().toString() else rows.select("id")

    job.sink("out", made, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match="'old' and 'older'"):
        plan_job(spark, job, world.options())
