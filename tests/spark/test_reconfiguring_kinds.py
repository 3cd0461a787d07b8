"""Repartitioning of each kind of state while rows come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from tests.spark.counting_job import UserScript
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.running_count import running_count
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

Make = Callable[[DataFrame, DataFrame], DataFrame]


def one_query(world: World, make: Make, **options: Any) -> Job:
    job = Job("kinds")

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.source(max_files_per_trigger=1)
    def other(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("other"))

    @job.transform(inputs={"rows": live, "others": other}, **options)
    def behind(rows: DataFrame, others: DataFrame) -> DataFrame:
        return make(rows, others)

    job.sink("out", behind, FileSink(world.path("out")))
    return job


def count_all(rows: DataFrame, others: DataFrame) -> DataFrame:
    return rows.unionByName(others).groupBy().agg(F.count("*").alias("n"))


def count_distinct(rows: DataFrame, others: DataFrame) -> DataFrame:
    return rows.unionByName(others).dropDuplicates(["id"]).groupBy().agg(F.count("*").alias("n"))


@pytest.mark.parametrize("make", [count_all, count_distinct], ids=["alone", "behind an operator with keys"])
def test_state_without_keys_is_not_repartitioned(world: World, make: Make) -> None:
    world.put_ids("live", 2, 10)
    world.put_ids("other", 1, 10, 20)
    outcomes: list[RequestOutcome] = []

    def top() -> int:
        return max((row["n"] for row in world.released()), default=0)

    def work(script: UserScript) -> None:
        wait_until(lambda: top() == 30, "30 counted")
        outcomes.append(script.change(Reconfiguration().assign_workload("behind", state_partitions=5)))
        world.put_ids("live", 1, 10, 30)
        wait_until(lambda: top() == 40, "40 counted")

    with UserScript(world, work):
        run = world.run(one_query(world, make, output_mode="update" if make is count_all else "complete"))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "failed"
    assert "uses only one part" in outcomes[0].detail


KINDS: dict[str, Make] = {
    "join": lambda rows, others: rows.join(others.select("id", F.col("k").alias("k2")), "id").select("id", "k"),
    "dedup": lambda rows, others: rows.unionByName(others).dropDuplicates(["id"]),
    "chained": lambda rows, others: rows.unionByName(others).dropDuplicates(["id"]).dropDuplicates(["id", "k"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_state_with_keys_is_repartitioned_twice(world: World, kind: str) -> None:
    make = KINDS[kind]
    world.put_ids("live", 2, 10)
    world.put_ids("other", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= 10, "rows")
        for parts, start in ((5, 20), (2, 30)):
            outcomes.append(script.change(Reconfiguration().assign_workload("behind", state_partitions=parts)))
            world.put_ids("other", 1, 10, start - 10)
            world.put_ids("live", 1, 10, start)
            wait_until(lambda: world.released_count() >= start, "rows")  # noqa: B023

    with UserScript(world, work):
        run = world.run(one_query(world, make))
    assert run.status == "STOPPED", run.cause

    def more(script: UserScript) -> None:
        world.put_ids("other", 2, 10, 30)
        world.put_ids("live", 1, 10, 40)
        wait_until(lambda: world.released_count() >= 50, "rows")

    with UserScript(world, more):
        run = world.run(one_query(world, make))
    assert run.status == "STOPPED", run.cause
    assert world.released_ids() == list(range(50))
    assert [outcome.result.value for outcome in outcomes] == ["completed"] * 2, outcomes


def test_state_of_a_python_function_is_repartitioned(world: World) -> None:
    world.put_ids("live", 2, 10)
    world.put_ids("other", 1, 1, 999)
    outcomes: list[RequestOutcome] = []

    def total() -> int:
        best: dict[int, int] = {}
        for row in world.released():
            best[row["k"]] = max(best.get(row["k"], 0), row["id"])
        return sum(best.values())

    def work(script: UserScript) -> None:
        wait_until(lambda: total() == 21, "rows")
        outcomes.append(script.change(Reconfiguration().assign_workload("behind", state_partitions=5)))
        world.put_ids("live", 1, 10, 20)
        wait_until(lambda: total() == 31, "rows")

    with UserScript(world, work):
        run = world.run(one_query(world, lambda rows, others: running_count(rows.unionByName(others))))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "completed"


def test_a_limit_for_ended_files_does_not_block_other_changes(world: World) -> None:
    world.put_ids("history", 2, 10)
    outcomes: list[RequestOutcome] = []
    job = Job("kinds")

    @job.source(bounded=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        rows = read.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        return rows.select((F.col("value") + 100).alias("id"), F.lit(0).cast("long").alias("k"))

    @job.transform(inputs=[history, live])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))

    def work(script: UserScript) -> None:
        limit = Reconfiguration().assign_workload("both", max_files_per_batch=1)
        outcomes.append(script.change(limit))
        wait_until(lambda: bool(world.state().dropped), "a source that is dropped")
        outcomes.append(script.change(Reconfiguration().assign_resources("both", pool_weight=2)))
        outcomes.append(script.change(Reconfiguration().assign_workload("both", max_files_per_batch=2)))

    with UserScript(world, work):
        run = world.run(job)
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed", "completed", "failed"], outcomes
    assert "it reads no files" in outcomes[2].detail
    assert sorted(row["id"] for row in world.released() if row["id"] < 100) == list(range(20))
