"""Rows that come later than event time: no row of history is late, and dropped rows are counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS, timed
from tests.spark.windows import WATERMARK, count_windows, counted

pytestmark = pytest.mark.slow


def counting(
    world: World,
    *,
    declared: bool = True,
    chain: bool = True,
    live_too: bool = True,
    live: dict[str, Any] | None = None,
    **history: Any,
) -> Job:
    """Return a job that counts rows in windows of ten seconds. A row's id is its event time in seconds."""
    job = Job("counting")
    watermark = WATERMARK if declared else None

    @job.source(bounded=True, chain=chain, max_files_per_trigger=2, watermark=watermark, uid="history", **history)
    def read_history(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("history")))

    inputs = [read_history]
    if live_too:

        @job.source(max_files_per_trigger=1, watermark=watermark, uid="live", **live or {})
        def read_live(read: DataStreamReader) -> DataFrame:
            return timed(read.schema(IDS).parquet(world.path("live")))

        inputs.append(read_live)

    return count_windows(job, world, inputs, declared=declared)


def put_reversed(world: World, folder: str, files: int) -> Counter[int]:
    """Write files of ten rows, the latest event times with the earliest modification times. Return the windows."""
    for number in reversed(range(files)):
        world.put_ids(folder, 1, 10, number * 10)
    return Counter(range(0, files * 10, 10))


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "in a query of its own"])
@pytest.mark.parametrize("declared", [True, False], ids=["on the source", "in the function"])
def test_r13_no_row_of_history_is_late_in_any_order(world: World, declared: bool, chain: bool) -> None:
    put_reversed(world, "history", 8)
    world.put_ids("live", 2, 10, 1_000)
    job = counting(world, declared=declared, chain=chain)
    run = world.run(job, world.ask("drain", lambda: bool(world.state().dropped)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == dict.fromkeys([*range(0, 80, 10), 1_000, 1_010], 10)
    assert world.late_rows() == 0
    assert not run.of("warning")


def test_no_row_of_history_is_late_in_a_bounded_job(world: World) -> None:
    put_reversed(world, "history", 8)
    run = world.run(counting(world, live_too=False), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert counted(world) == dict.fromkeys(range(0, 80, 10), 10)


def test_ordered_history_closes_windows_while_it_is_read(world: World) -> None:
    world.put_ids("history", 24, 10)
    world.put_ids("live", 1, 10, 1_000)
    while_read: list[int] = []
    drain = world.ask("drain", lambda: bool(world.state().dropped))

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and not world.state().ended:
            while_read.append(world.released_count())
        drain(line)

    run = world.run(counting(world, in_order=True), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert while_read[-1] > 0
    assert counted(world) == dict.fromkeys([*range(0, 240, 10), 1_000], 10)


def test_rows_that_break_the_promised_order_are_counted(world: World) -> None:
    put_reversed(world, "history", 8)
    run = world.run(counting(world, live_too=False, in_order=True), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    missing = 80 - sum(counted(world).values())
    assert missing > 0
    assert 0 < world.late_rows() <= missing
    assert "rows dropped as late" in run.lines[-1]["message"]
    assert run.lines[-1]["late_rows"] == world.late_rows()


def test_duplicates_are_dropped_within_the_users_delay(world: World) -> None:
    """Spark keeps a row until its event time plus the delay. A longer delay would drop later duplicates."""
    job = Job("unique")

    @job.source(bounded=True, max_files_per_trigger=2, watermark=WATERMARK)
    def history(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("history")))

    @job.source(max_files_per_trigger=1, watermark=WATERMARK)
    def live(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("live")))

    @job.transform(inputs=[history, live])
    def unique(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicatesWithinWatermark(["k"]).select("id", "k")

    job.sink("out", unique, FileSink(world.path("out")))
    for first in (6, 3, 0):
        world.put_ids("history", 1, 3, first)  # k is 0, 1, 2 in each file

    def on_line(line: Line) -> None:
        if line["kind"] == "source_dropped":
            for start in (100, 103, 200):
                world.put_ids("live", 1, 3, start)
        drain(line)

    drain = world.ask("drain", lambda: world.read_up_to("unique", "live") == 2)
    run = world.run(job, on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    rows = Counter(row["k"] for row in world.released())
    assert set(rows) == {0, 1, 2}
    assert {200, 201, 202} <= set(world.released_ids())  # the state of earlier rows has expired


def put_late(world: World) -> None:
    """Write live rows of which the last ten are late: the watermark is at 1,018 s when they come."""
    world.put_ids("live", 2, 10, 1_000)
    world.put_ids("live", 1, 10, 1_100)
    world.put_ids("live", 1, 10, 0)


def test_late_rows_of_a_live_source_are_counted(world: World) -> None:
    put_late(world)
    job = counting(world, allow_empty=True)
    run = world.run(job, world.ask("drain", lambda: world.read_up_to("counts", "live") == 3))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert 0 not in counted(world)
    assert 1 <= world.late_rows() <= 10
    assert any("late" in line["message"] for line in run.of("released"))


def test_a_source_with_late_rows_fail_fails_the_job_before_the_release(world: World) -> None:
    put_late(world)
    run = world.run(counting(world, allow_empty=True, live={"late_rows": "fail"}))
    assert run.status == "FAILED"
    assert run.cause is not None
    assert "late_rows='fail'" in run.cause
    assert world.newest_batch("counts") == 2
