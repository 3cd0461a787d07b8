"""A job whose controllers change it while it runs: input and limits grow, and every row is released once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import Autoscaler, Controller, FileSink, Job, JobMetrics, Reconfiguration
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from tests.spark.counting_job import UserScript, check_counting, expected_counts, final_counts
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def watched(world: World, controllers: Sequence[Controller]) -> Job:
    """Return a job that reads a feed one file at a time.

    One query passes its rows on, and another query counts them by key.
    """
    job = Job("watched", controllers=controllers)

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[live], chain=False)
    def marked(rows: DataFrame) -> DataFrame:
        return rows

    @job.transform(inputs=[live], chain=False, output_mode="update")
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("last"))

    job.sink("out", marked, FileSink(world.path("out")))
    job.sink("counted", counts, FileSink(world.path("counted")))
    return job


class Watcher(Controller):
    """A controller that records the metrics it gets, and raises at the end."""

    every = 0.2

    def __init__(self) -> None:
        self.seen: list[JobMetrics] = []

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        self.seen.append(metrics)
        if any(batch.state_rows for batch in metrics.queries["counts"].batches):
            raise LookupError("seen enough")
        return None


def batches(world: World, vertex: str) -> list[Batch]:
    return [record for _, record in world.records(vertex) if isinstance(record, Batch)]


def test_the_autoscaler_raises_the_limit_of_a_source_while_others_run(world: World) -> None:
    world.put_ids("live", 1, 10)
    policy = Autoscaler(
        "live", max_files_per_batch=(1, 8), polls=2, every="300ms", cool_down="500ms", idle_polls=100_000
    )
    files = 45
    rows = 10 + files * 5

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= 10, "the first rows")
        assert script.client.read_state().settings == {}, "one file at a time suffices"
        world.put_ids("live", files, 5, start=10)
        wait_until(
            lambda: any(change.took for change in script.client.read_state().reconfigurations), "a change by itself"
        )
        wait_until(lambda: world.released_count() >= rows, "released rows")
        wait_until(lambda: final_counts(world) == expected_counts(rows), "released counts")

    with UserScript(world, work):
        run = world.run(watched(world, [policy]), checkpoint_interval=1.0)

    assert run.status == "STOPPED", run.cause
    check_counting(world, rows)
    state = world.state()
    assert set(state.settings) == {"live"}
    assert (state.settings["live"].max_files_per_batch or 0) >= 2
    assert {(change.by, tuple(change.took)) for change in state.reconfigurations} == {("Autoscaler(live)", ("live",))}
    assert any("Autoscaler(live) asks for live: max_files_per_batch=2" in line["message"] for line in run.lines)
    assert len([record for _, record in world.records("counts") if isinstance(record, Open)]) == 1
    assert max(batch.rows or 0 for batch in batches(world, "live")) > 10, "more than two files at once"


def test_a_controller_gets_metrics_and_a_failing_one_is_switched_off(world: World) -> None:
    world.put_ids("live", 2, 10)
    watcher = Watcher()

    def work(script: UserScript) -> None:
        script.put(20)
        wait_until(lambda: any(line["kind"] == "warning" for line in lines), "a warning of the failing controller")
        script.put(30)

    lines: list[dict[str, object]] = []
    with UserScript(world, work):
        run = world.run(watched(world, [watcher]), on_line=lines.append)

    assert run.status == "STOPPED", run.cause
    check_counting(world, 40)
    (warning,) = run.of("warning")
    assert "Watcher failed, and is switched off for this run; the job continues: seen enough" in warning["message"]
    assert "LookupError" in warning["traceback"]
    of_live = [batch for metrics in watcher.seen for batch in metrics.queries["live"].batches]
    assert of_live
    assert {batch.files for batch in of_live} == {1}
    assert all(batch.size > 0 and batch.rows and batch.duration > 0 for batch in of_live)
    (state,) = [batch for batch in watcher.seen[-1].queries["counts"].batches if batch.state_rows][:1]
    assert state.state_rows == 3
    assert state.state_partitions
    assert (state.state_bytes or 0) > 0


def test_a_job_without_controllers_runs_as_usual(world: World) -> None:
    world.put_ids("live", 1, 10)
    with UserScript(world, lambda script: script.put(10)):
        run = world.run(watched(world, []))
    assert run.status == "STOPPED", run.cause
    check_counting(world, 20)
