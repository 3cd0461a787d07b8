"""Rows with an unfit event time, and sources that hold event time.

They are counted and named, and make no other row late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.analysed_plan import has_watermark, watermarks
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from airflow_provider_ckpt.spark.query.event_time import FOLLOWED, EventTimeGuard
from airflow_provider_ckpt.spark.query.unions import Union, without_ended
from airflow_provider_ckpt.status.event_time_text import held_windows
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS, timed
from tests.spark.windows import WATERMARK, count_windows, counted

pytestmark = pytest.mark.slow

YEAR_9999 = 253_370_764_800


def windows_of(world: World, *folders: str, declared: bool = True, chain: bool = True, **options: Any) -> Job:
    """Return a job that counts rows of live sources in windows of ten seconds.

    A row's id is its event time in seconds. ``options``: for the source of the last folder.
    """
    job = Job("windows")
    watermark = WATERMARK if declared else None
    sources = []
    for folder in folders:
        given = options if folder == folders[-1] else {}

        @job.source(uid=folder, max_files_per_trigger=1, watermark=watermark, chain=chain, **given)
        def read_live(read: DataStreamReader, folder: str = folder) -> DataFrame:
            return timed(read.schema(IDS).parquet(world.path(folder)))

        sources.append(read_live)

    return count_windows(job, world, sources, declared=declared)


def put_times(world: World, folder: str, *times: int | None) -> None:
    """Write a file with a row for each event time."""
    world.put(folder, f"{world.puts:06d}", [{"id": second, "k": 0} for second in times])


def times_of(world: World, source: str = "live") -> SourceTimes:
    return world.state().times()["counts"][source]


def test_the_event_time_column_hides_no_change_of_the_users_keys(spark: SparkSession) -> None:
    """Numbers in a query that reads the clock are not compared. Our own expressions do not belong to the query."""

    def kept(modulus: int) -> Any:
        rows = timed(spark.readStream.name("live").format("rate").load().withColumnRenamed("value", "id"))
        followed = EventTimeGuard(observes=True).follow(rows, "ts", "1 minute", uid="live", max_ahead=60.0)
        assert (has_watermark(followed), watermarks(followed)) == (True, [("ts", "1 minutes")])
        assert followed.columns == rows.columns
        return kept_state(followed.groupBy((F.col("id") % modulus).alias("key"), F.window("ts", "1 hour")).count())

    assert kept(7) == kept(7) != kept(8)


@pytest.mark.parametrize("declared", [True, False], ids=["on the source", "in the function"])
def test_a_watermark_on_windows_is_refused(spark: SparkSession, world: World, declared: bool) -> None:
    job = Job("windows")
    mark = ("w", "1 minute")

    @job.source(watermark=mark if declared else None)
    def live(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("live"))).withColumn("w", F.window("ts", "10 seconds"))

    @job.transform(inputs=[live])
    def counts(rows: DataFrame) -> DataFrame:
        rows = rows if declared else rows.withWatermark(*mark)
        return rows.groupBy("w").count().select("w.start", "count")

    job.sink("out", counts, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match="watermark on the column 'w', which holds windows"):
        plan_job(spark, job, world.options())


def put_far_ahead(world: World) -> None:
    """Write four files, the second with one row of the year 9999."""
    world.put_ids("live", 1, 10, 1_000)
    put_times(world, "live", YEAR_9999)
    world.put_ids("live", 1, 10, 1_010)
    world.put_ids("live", 1, 10, 1_100)


def drained(world: World, job: Job, files: int, source: str = "live") -> Any:
    return world.run(job, world.ask("drain", lambda: world.read_up_to("counts", source) == files - 1))


@pytest.mark.parametrize("declared", [True, False], ids=["on the source", "in the function"])
def test_a_row_of_the_year_9999_makes_no_other_row_late(world: World, declared: bool) -> None:
    put_far_ahead(world)
    run = drained(world, windows_of(world, "live", declared=declared), 4)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == {1_000: 10, 1_010: 10, 1_100: 10, YEAR_9999: 1}
    assert world.late_rows() == 0
    assert (times_of(world).ahead, times_of(world).newest) == (1, 1_109_000)
    assert "rows further ahead of the clock than max_ahead: 1 of live in counts" in run.lines[-1]["message"]
    assert any("1 more row came further ahead of the clock" in line["message"] for line in run.of("released"))
    assert not run.of("warning")


def test_columns_in_another_order_keep_the_guard_of_a_unions_inputs(spark: SparkSession) -> None:
    """When history had been left out, a row of the year 9999 made 10 of 18 rows late."""
    guard = EventTimeGuard(observes=False)
    rows = timed(spark.readStream.name("live").format("rate").load().withColumnRenamed("value", "id"))
    live = guard.of_input(rows.select("ts", "id"), None, uid="live", max_ahead=60.0)
    union = Union(rows.select("id", "ts").schema, {"live": live.schema})
    (left,) = without_ended({"live": live}, union)
    assert left.columns == ["id", "ts"]
    followed = left.withWatermark("ts", "1 minute")
    assert f"{FOLLOWED}ts" in followed._jdf.queryExecution().analyzed().toString()
    assert followed.columns == ["id", "ts"]


def test_without_max_ahead_a_row_moves_the_watermark_ahead_of_the_clock(world: World) -> None:
    put_far_ahead(world)
    run = drained(world, windows_of(world, "live", max_ahead=None), 4)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert 1_100 not in counted(world)
    assert world.late_rows() > 0
    assert ["the watermark of counts is ahead of the clock" in line["message"] for line in run.of("warning")] == [True]


def test_a_row_ahead_of_the_clock_makes_no_row_of_the_next_query_late(world: World) -> None:
    put_far_ahead(world)
    run = world.run(
        windows_of(world, "live", chain=False), world.ask("drain", lambda: world.read_up_to("live", "live") == 3)
    )
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == {1_000: 10, 1_010: 10, 1_100: 10, YEAR_9999: 1}
    assert world.late_rows() == 0
    assert times_of(world).ahead == 1


def test_a_row_ahead_of_the_clock_makes_no_row_of_a_join_late(world: World) -> None:
    job = Job("joined")

    @job.source(max_files_per_trigger=1, watermark=WATERMARK)
    def left(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("left")))

    @job.source(max_files_per_trigger=1, watermark=WATERMARK)
    def right(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("right")))

    @job.transform(inputs={"one": left, "two": right})
    def counts(one: DataFrame, two: DataFrame) -> DataFrame:
        other = two.select(F.col("id").alias("other"), F.col("ts").alias("at"))
        seconds = F.expr("INTERVAL 5 SECONDS")
        near = (F.col("id") == F.col("other")) & F.col("at").between(F.col("ts") - seconds, F.col("ts") + seconds)
        return one.join(other, near, "left_outer").select("id", F.col("other").isNotNull().alias("is_joined"))

    job.sink("out", counts, FileSink(world.path("out")))
    for folder in ("left", "right"):
        world.put_ids(folder, 1, 10, 1_000)
        put_times(world, folder, YEAR_9999)
        for start in (1_010, 1_020, 1_030):
            world.put_ids(folder, 1, 10, start)
    put_times(world, "left", 1_040)

    def is_read() -> bool:
        return (world.read_up_to("counts", "left"), world.read_up_to("counts", "right")) == (5, 4)

    run = world.run(job, world.ask("drain", is_read))
    assert (run.status, run.cause) == ("FINISHED", None)
    joined = {row["id"]: row["is_joined"] for row in world.released()}
    assert joined == {**dict.fromkeys([*range(1_000, 1_040), YEAR_9999], True), 1_040: False}
    assert len(world.released()) == len(joined)
    assert world.late_rows() == 0


def test_rows_with_an_unfit_event_time_are_counted_once_by_reason(world: World) -> None:
    """A micro-batch that runs again counts its rows once."""
    for start in (1_000, 1_100, 1_200):
        put_times(world, "live", *range(start, start + 10), None, -5)
    run = world.stop_in_batch(windows_of(world, "live"), "counts", number=2)
    assert run.status == "STOPPED"
    assert (times_of(world).without, times_of(world).before_1970) == (1, 1)
    run = drained(world, windows_of(world, "live"), 3)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == {1_000: 10, 1_100: 10, 1_200: 10}
    times = times_of(world)
    assert (times.without, times.before_1970, times.ahead) == (3, 3, 0)
    message = run.lines[-1]["message"]
    assert "rows without an event time: 3 of live in counts" in message
    assert "rows before 1970: 3 of live in counts" in message
    shown = job_view(world.state(), None)["event_time"]["counts"]["sources"]["live"]
    assert (shown["rows_without_event_time"], shown["rows_before_1970"], shown["rows_ahead"]) == (3, 3, 0)
    assert shown["watermark"] == 1_208_000


@pytest.mark.parametrize(
    ("row", "reason"), [(None, "without an event time"), (-5, "before 1970"), (YEAR_9999, "further ahead of the clock")]
)
def test_a_source_with_late_rows_fail_refuses_an_unfit_event_time(world: World, row: int | None, reason: str) -> None:
    put_times(world, "live", 1_000, row)
    run = world.run(windows_of(world, "live", late_rows="fail"))
    assert run.status == "FAILED"
    assert run.cause is not None
    assert f"1 row {reason}" in run.cause
    assert world.newest_batch("counts") == -1


def test_an_idle_source_lets_windows_close_and_its_late_rows_are_counted(world: World) -> None:
    world.put_ids("busy", 3, 10, 1_000)
    world.put_ids("idle", 1, 10, 1_000)
    steps: list[Callable[[], bool]] = [
        lambda: 1_010 in counted(world),  # 1_000 alone would close while the source holds event time
        lambda: world.late_rows() > 0,
    ]

    def on_line(line: Line) -> None:
        if line["kind"] in ("checkpoint", "released") and steps and steps[0]():
            del steps[0]
            if steps:
                put_times(world, "idle", 1_001)
            else:
                world.request("drain")

    run = world.run(windows_of(world, "busy", "idle", idle_timeout="2s"), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == {1_000: 20, 1_010: 10, 1_020: 10}
    assert world.late_rows() == 1


def test_a_source_whose_rows_wait_for_the_trigger_is_not_idle(world: World) -> None:
    """Each trigger reads one file of each source, after a pause that is longer than the timeout."""
    for number in range(3):
        put_times(world, "fast", *range(1_000 + 100 * number, 1_010 + 100 * number))
        put_times(world, "slow", *range(1_000 + 10 * number, 1_010 + 10 * number))
    drain = world.ask(
        "drain", lambda: world.read_up_to("counts", "fast") >= 2 and world.read_up_to("counts", "slow") >= 2
    )
    run = world.run(windows_of(world, "fast", "slow", idle_timeout="1s"), drain, trigger_interval=3)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == {1_000: 20, 1_010: 10, 1_020: 10, 1_100: 10, 1_200: 10}
    assert world.late_rows() == 0


def test_an_idle_source_without_a_timeout_holds_windows_and_is_named(world: World) -> None:
    world.put_ids("busy", 3, 10, 1_000)
    world.put_ids("idle", 1, 5, 1_000)
    stop = world.ask(
        "stop", lambda: world.read_up_to("counts", "busy") == 2 and world.read_up_to("counts", "idle") == 0
    )
    run = world.run(windows_of(world, "busy", "idle"), stop)
    assert (run.status, run.cause) == ("STOPPED", None)
    assert counted(world) == {}
    (held,) = held_windows(world.state(), time.time() + 600)
    assert (held.vertex, held.source) == ("counts", "idle")
    assert held_windows(world.state(), times_of(world, "idle").last_row_at or 0.0) == []
    assert (times_of(world, "busy").watermark, times_of(world, "idle").watermark) == (1_028_000, 1_003_000)


def test_an_idle_timeout_across_queries_is_refused(world: World) -> None:
    world.put_ids("busy", 1, 10)
    world.put_ids("idle", 1, 10)
    with pytest.raises(UnsupportedQueryError, match="idle_timeout of source 'idle'"):
        world.run(windows_of(world, "busy", "idle", chain=False, idle_timeout="2s"))
    assert not world.everything_under_root()
