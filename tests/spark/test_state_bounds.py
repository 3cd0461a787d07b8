"""Changed windows, gaps, time bounds and functions of state do not continue with the kept state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.model.kept_state import confused_states
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from tests.spark.harness import World
from tests.spark.jobs import windows

pytestmark = pytest.mark.slow

Query = Callable[[DataFrame, DataFrame], DataFrame]


def by(*keys: str) -> Query:
    """``keys``: in SQL."""
    return lambda orders, payments: orders.groupBy(*map(F.expr, keys)).count()


def joined(bound: str) -> Query:
    condition = f"orders.id = payments.id AND payments.ts >= orders.ts AND payments.ts <= orders.ts + {bound}"
    return lambda orders, payments: orders.alias("orders").join(payments.alias("payments"), F.expr(condition))


def within(delay: str) -> Query:
    return lambda orders, payments: orders.withWatermark("ts", delay).dropDuplicatesWithinWatermark(["id"])


def with_state(function: Any, timeout: str) -> Query:
    return lambda orders, payments: orders.groupBy("k").applyInPandasWithState(
        function, "id long", "n long", "append", timeout
    )


def count(key: Any, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    yield from frames


def total(key: Any, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    yield from frames


def bounds(spark: SparkSession, world: World, query: Query, renamed: bool = False) -> Any:
    def read(name: str) -> DataFrame:
        stream = spark.readStream.name(name).schema("id long, k long, price double, ts timestamp")
        rows = stream.parquet(world.path(name)).withWatermark("ts", "1 hour")
        return rows.withColumnRenamed("price", "amount") if renamed else rows

    return kept_state(query(read("orders"), read("payments")))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (by("window(ts, '1 hour')"), by("window(ts, '3 hours')"), ("window of 1 hour", "window of 3 hours")),
        (
            by("window(ts, '1 hour', '20 minutes')"),
            by("window(ts, '1 hour', '30 minutes')"),
            ("window of 1 hour every 20 minutes", "window of 1 hour every 30 minutes"),
        ),
        (
            by("window(ts, '1 day')"),
            by("window(ts, '1 day', '1 day', '2 hours')"),
            ("window of 1 day", "window of 1 day starting at 2 hours"),
        ),
        (
            by("session_window(ts, '5 minutes')", "k"),
            by("session_window(ts, '10 minutes')", "k"),
            ("session gap of 5 minutes", "session gap of 10 minutes"),
        ),
        (within("1 hour"), within("2 hours"), ("duplicates within 1 hour", "duplicates within 2 hours")),
        (joined("INTERVAL 1 HOUR"), joined("INTERVAL 2 HOURS"), ("INTERVAL '01' HOUR", "INTERVAL '02' HOUR")),
        (with_state(count, "NoTimeout"), with_state(total, "NoTimeout"), ("function count", "function total")),
        (
            with_state(count, "NoTimeout"),
            with_state(count, "ProcessingTimeTimeout"),
            ("timeout NoTimeout", "timeout ProcessingTimeTimeout"),
        ),
        (by("date_trunc('hour', ts)"), by("date_trunc('day', ts)"), ("date_trunc", "date_trunc")),
        (by("round(price, 1)"), by("round(price, 2)"), ("round(_, 1)", "round(_, 2)")),
    ],
    ids=["length", "slide", "start", "gap", "interval", "join", "function", "timeout", "unit", "rounding"],
)
def test_another_bound_of_state_is_distinguished(
    spark: SparkSession, world: World, before: Query, after: Query, shown: tuple[str, str]
) -> None:
    had, has = bounds(spark, world, before), bounds(spark, world, after)
    confused = confused_states(had, has)
    assert confused is not None
    assert [text in str(kept) for text, kept in zip(shown, confused, strict=True)] == [True, True]
    assert confused_states(had, bounds(spark, world, before)) is None


def test_a_column_may_be_renamed(spark: SparkSession, world: World) -> None:
    before, after = by("round(price, 1)"), by("round(amount, 1)")
    assert confused_states(bounds(spark, world, before), bounds(spark, world, after, renamed=True)) is None


def test_another_window_length_is_refused_before_anything_is_written(world: World) -> None:
    world.put_ids("history", 3, 10)
    world.put_ids("live", 1, 10, 1_000)
    stop = world.ask("stop", lambda: world.read_up_to("counts", "history") >= 1)
    assert world.run(windows(world), stop).status == "STOPPED"
    written = world.everything_under_root()
    with pytest.raises(DefinitionChangedError) as refused:
        world.run(windows(world, length="30 seconds"))
    assert "window of 10 seconds" in str(refused.value)
    assert "window of 30 seconds" in str(refused.value)
    assert world.everything_under_root() == written
