"""Operators with state: their place in the plan, and their state across stops, kills, restores and drops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.query.analysed_plan import is_stateful
from airflow_provider_ckpt.storage.errors import StorageTransientError
from tests.spark.faults import HookedStorage, NothingIsPublished
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.running_count import running_count

pytestmark = pytest.mark.slow

Make = Callable[[DataFrame, DataFrame, DataFrame], DataFrame]


def rowwise(rows: Iterator[Any]) -> Iterator[Any]:
    yield from rows


STATEFUL: dict[str, Make] = {
    "limit": lambda one, two, table: one.limit(3),
    "distinct": lambda one, two, table: one.distinct(),
    "de-duplication": lambda one, two, table: one.dropDuplicates(["id"]),
    "de-duplication in a watermark": lambda one, two, table: timed(one).dropDuplicatesWithinWatermark(["id"]),
    "aggregate": lambda one, two, table: one.groupBy("k").count(),
    "window": lambda one, two, table: timed(one).groupBy(F.window("ts", "5 seconds")).count(),
    "session window": lambda one, two, table: timed(one).groupBy(F.session_window("ts", "5 seconds")).count(),
    "join of streams": lambda one, two, table: one.join(two, "id"),
    "under a projection": lambda one, two, table: one.limit(3).select("id").where("id > 1"),
    "under a union": lambda one, two, table: one.limit(3).unionByName(two),
    "any state, Pandas": lambda one, two, table: running_count(one),
    "any state, older": lambda one, two, table: one.groupBy("k").applyInPandasWithState(
        lambda key, rows, state: iter([]),
        "k long",
        "n long",
        "append",
        "NoTimeout",
    ),
}
STATELESS: dict[str, Make] = {
    "filter": lambda one, two, table: one.where("id > 1"),
    "union": lambda one, two, table: one.unionByName(two),
    "join with a table": lambda one, two, table: one.join(table, "id"),
    "join with an aggregated table": lambda one, two, table: one.join(table.groupBy("id").count().limit(3), "id"),
    "explode": lambda one, two, table: one.select("id", F.explode(F.array("k", "id"))),
    "unpivot": lambda one, two, table: one.unpivot("id", ["k"], "name", "value"),
    "Python": lambda one, two, table: one.mapInPandas(rowwise, IDS).mapInArrow(rowwise, IDS),
    "function": lambda one, two, table: one.select(F.udf(lambda value: value, "long")("id")),
    "hints": lambda one, two, table: one.hint("rebalance").repartition(3).coalesce(1).alias("a"),
    "watermark": lambda one, two, table: timed(one).select(F.window("ts", "5 seconds")),
    "samples, observed": lambda one, two, table: one.sample(0.5).observe("seen", F.count("*")),
    "sorted within": lambda one, two, table: one.repartitionByRange(2, "id").sortWithinPartitions("id"),
}


def timed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("ts", F.timestamp_seconds("id")).withWatermark("ts", "1 second")


def of_streams(spark: SparkSession, world: World, make: Make) -> DataFrame:
    one, two = (spark.readStream.name(name).schema(IDS).parquet(world.path(name)) for name in ("one", "two"))
    return make(one, two, spark.range(3))


@pytest.mark.parametrize("make", STATEFUL.values(), ids=STATEFUL)
def test_stateful_operators_are_recognized(spark: SparkSession, world: World, make: Make) -> None:
    assert is_stateful(of_streams(spark, world, make))


@pytest.mark.parametrize("make", STATELESS.values(), ids=STATELESS)
def test_stateless_operators_are_recognized(spark: SparkSession, world: World, make: Make) -> None:
    assert not is_stateful(of_streams(spark, world, make))


# ---- whole jobs


def job(
    world: World,
    behind: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    cleaned: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Job:
    """Return a job with history, which a function cleans, and a live feed. ``behind`` follows their union."""
    job = Job("stateful")

    @job.source(bounded=True, max_files_per_trigger=1)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    clean = job.transform(inputs=[history], uid="clean")(lambda rows: cleaned(rows))

    job.sink(
        "out", job.transform(inputs=[clean, live], uid="behind")(lambda rows: behind(rows)), FileSink(world.path("out"))
    )
    return job


def put(world: World) -> Counter[int]:
    """Write the input; return the number of rows of each key."""
    numbers = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    return Counter(number % 3 for number in numbers)


def check_counts(world: World, expected: Counter[int]) -> None:
    """Check that every count was released once and that the last one is right."""
    rows = world.released()
    assert len({(row["k"], row["id"]) for row in rows}) == len(rows)
    assert {k: max(row["id"] for row in rows if row["k"] == k) for k in expected} == dict(expected)


def history_is_dropped(world: World) -> bool:
    return any(world.state().dropped.values())


def test_python_state_continues_after_a_stop(world: World) -> None:
    expected = put(world)
    stopped = world.run(job(world, running_count), world.ask("stop", lambda: history_is_dropped(world)))
    assert (stopped.status, stopped.cause) == ("STOPPED", None)
    expected += Counter(number % 3 for number in world.put_ids("live", 2, 2, 2000))
    for _ in range(2):
        again = world.run(job(world, running_count), world.ask("stop", lambda: world.released_count() > 0))
        assert (again.status, again.cause) == ("STOPPED", None)
    run = world.run(job(world, running_count), world.ask("drain", lambda: total(world) == expected.total()))
    assert (run.status, run.cause) == ("FINISHED", None)
    check_counts(world, expected)


def test_python_state_continues_after_kills_at_each_step_of_a_batch(world: World) -> None:
    expected = put(world)
    for number, dies in enumerate(("/prepared/", "behind/0/log/", "/prepared/")):
        expected += Counter(row_id % 3 for row_id in world.put_ids("live", 3, 1, 2000 + 10 * number))
        seen: list[str] = []

        def hook(verb: str, path: str, dies: str = dies, seen: list[str] = seen) -> None:
            seen += [path] if dies in path and verb in ("replace", "create") else []
            if len(seen) > 2:
                raise StorageTransientError(verb=verb, uri=path, reason="gone")

        with suppress(TransientError):
            world.run(job(world, running_count), storage=HookedStorage(world.storage, hook))
    run = world.run(job(world, running_count), world.ask("drain", lambda: total(world) == expected.total()))
    assert (run.status, run.cause) == ("FINISHED", None)
    check_counts(world, expected)


def test_r4_python_state_is_restored_to_a_checkpoint(world: World) -> None:
    expected = put(world)
    # history does not end here, nor in the next run: its end would trigger another checkpoint
    stopped = world.stop_in_batch(job(world, running_count), "behind")
    assert (stopped.status, stopped.cause) == ("STOPPED", None)
    number = world.state().last_completed
    with suppress(TransientError):
        world.run(job(world, running_count), storage=NothingIsPublished(world.storage), checkpoint_interval=600)
    path = f"{world.root}/{world.job_id}/checkpoints/chk-{number}"
    done = world.ask("drain", lambda: total(world) == expected.total())
    run = world.run(job(world, running_count), done, restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    check_counts(world, expected)


def total(world: World) -> int:
    last = Counter[int]()
    for row in world.released():
        last[row["k"]] = max(last[row["k"]], row["id"])
    return last.total()


@pytest.mark.parametrize("keeps", [lambda rows: rows.limit(3), lambda rows: rows.dropDuplicates(["k"])])
def test_stateful_history_is_a_query_of_its_own(
    spark: SparkSession, world: World, keeps: Callable[[DataFrame], DataFrame]
) -> None:
    put(world)
    plan = plan_job(spark, job(world, cleaned=keeps), world.options())
    assert [vertex.uid for vertex in plan.graph.vertices] == ["clean", "behind"]
    assert [v.uid for v in plan_job(spark, job(world), world.options()).graph.vertices] == ["behind"]


@pytest.mark.parametrize(
    ("behind", "rows"),
    [(lambda rows: rows.limit(8), 8), (lambda rows: rows.dropDuplicates(["k"]), 3)],
    ids=["limit", "de-duplication"],
)
def test_r2_state_after_the_union_stays_when_history_is_dropped(
    world: World, behind: Callable[[DataFrame], DataFrame], rows: int
) -> None:
    put(world)
    stopped = world.run(job(world, behind), world.ask("stop", lambda: history_is_dropped(world)))
    assert (stopped.status, stopped.cause) == ("STOPPED", None)
    world.put_ids("live", 3, 2, 2000)
    read = world.ask("drain", lambda: world.read_up_to("behind", "live") >= 4)
    run = world.run(job(world, behind), read)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert len(world.released()) == rows
