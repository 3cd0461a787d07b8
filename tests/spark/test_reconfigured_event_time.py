"""Functions with another event time than a query's readers use, or than Spark resumes from.

If such a function were assigned, Spark would drop rows as late that are on time, and refuse the next run.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from tests.spark.counting_job import UserScript
from tests.spark.harness import World
from tests.spark.jobs import IDS, timed, windows, write_version
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def marking(world: World) -> Job:
    """Return a job in which one query sets the event time of a feed and another one counts in windows."""
    job = Job("marking")

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[live], chain=False)
    def marked(rows: DataFrame) -> DataFrame:
        return timed(rows).withColumn("other", F.timestamp_seconds("k")).withWatermark("ts", "1 second")

    @job.transform(inputs=[marked], chain=False)
    def counts(rows: DataFrame) -> DataFrame:
        counted = rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
        return counted.select(F.unix_seconds("window.start").alias("id"), "n")

    job.sink("out", counts, FileSink(world.path("out")))
    return job


def test_a_function_with_another_event_time_is_refused(world: World) -> None:
    live = "@job.source\ndef live(read):\n    return read"
    timed_by = "F.timestamp_seconds"
    outcomes: list[RequestOutcome] = []
    marks = [
        '.withWatermark("other", "1 second")',
        '.withWatermark("ts", "1 hour")',
        f'.withWatermark("ts", "1 second").withColumn("ts", {timed_by}("id"))',
        "",
    ]
    world.put_ids("live", 2, 10)

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= 1, "a window")
        for number, mark in enumerate(marks):
            columns = f'.withColumn("ts", {timed_by}("id")).withColumn("other", {timed_by}("k"))'
            function = f"@job.transform(inputs=[live], chain=False)\ndef marked(rows):\n    return rows{columns}{mark}"
            reference = write_version(world, f"v{number}", live, function)
            outcomes.append(script.change(Reconfiguration().assign_execution_logic("marked", reference)))
        world.put_ids("live", 1, 10, 20)
        wait_until(lambda: world.released_count() >= 2, "the next window")
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        run = world.run(marking(world))
    assert run.status == "FINISHED", run.cause
    assert world.released_ids() == [0, 10, 20]
    assert world.state().settings == {}
    assert [outcome.detail.partition("the one that runs: ")[2].partition(";")[0] for outcome in outcomes] == [
        "it has another watermark: other, 1 seconds",
        "it has another watermark: ts, 1 hours",
        "its output follows the event time of no column, and its consumers follow 'ts', 1000 ms",
        "it no longer has event time",
    ]


def test_a_watermark_after_the_union_is_refused(world: World) -> None:
    sources = "\n".join(
        f"@job.source(bounded={ends}, watermark=('ts', '1 second'))\ndef {uid}(read):\n    return read"
        for uid, ends in (("history", True), ("live", False))
    )
    counted = 'groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))'
    function = (
        "@job.transform(inputs=[history, live])\ndef counts(rows):\n"
        f'    counted = rows.withWatermark("ts", "1 second").{counted}\n'
        '    return counted.select(F.unix_seconds("window.start").alias("id"), "n")'
    )
    world.put_ids("history", 2, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        reference = write_version(world, "v2", sources, function)
        outcomes.append(script.change(Reconfiguration().assign_execution_logic("counts", reference)))
        world.put_ids("live", 1, 10, 100)
        wait_until(lambda: world.read_up_to("counts", "live") == 0, "read")
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        run = world.run(windows(world))
    assert run.status == "FINISHED", (run.cause, outcomes)
    assert "another watermark" in outcomes[0].detail
    assert world.released_ids() == [0, 10, 100]
