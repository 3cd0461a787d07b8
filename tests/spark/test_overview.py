"""The overview of a real run: how far history is read, rows and rates, and the same numbers after a restart."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_view import JobView
from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.task.streaming.query_progress import unread_records
from airflow_provider_ckpt.status.job_overview import JobOverview, read_overview, write_overview
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS


def copying(world: World) -> Job:
    """Return a job that copies history and live files, in an order of leaves that is not that of the names."""
    job = Job("copying")

    @job.source(max_files_per_trigger=1, uid="live")
    def read_live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.source(bounded=True, max_files_per_trigger=1, uid="history")
    def read_history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[read_live, read_history], uid="rows")
    def rows(both: DataFrame) -> DataFrame:
        return both

    job.sink("out", rows, FileSink(world.path("out"), format="parquet"))
    return job


def stored(world: World) -> JobOverview:
    overview = read_overview(world.storage, world.job_id)
    assert overview is not None
    return overview


@pytest.mark.slow
def test_the_overview_of_a_run_counts_files_and_rows_of_each_source(world: World) -> None:
    world.put_ids("history", 6, 10)
    world.put_ids("live", 2, 7, 1000)
    seen: list[JobOverview] = []

    def watch(line: Line) -> None:
        if line["kind"] in ("checkpoint", "released", "source_ended"):
            seen.append(stored(world))

    drain = world.drain_at(74)

    def both(line: Line) -> None:
        watch(line)
        drain(line)

    assert world.run(copying(world), both, overview_interval=0.05).status == "FINISHED"
    last = stored(world)
    sources = {source.uid: source for source in last.sources}
    history, live = sources["history"], sources["live"]
    assert (history.unit, history.done, history.total, history.left, history.rows) == ("files", 6, 6, 0, 60)
    assert (live.bounded, live.rows, live.total) == (False, 14, None)
    assert last.vertices[0].rows == 74
    (out,) = last.sinks
    assert (out.kind, out.counts["rows"], out.released) == ("file", 74, last.last_completed)
    assert (last.status, last.problems) == ("FINISHED", ())
    assert any(0 < (source.done or 0) < 6 for overview in seen for source in overview.sources), "on the way"
    assert JobView(world.root, world.job_id).overview().sinks[0].counts["rows"] == 74


@pytest.mark.slow
def test_released_rows_add_up_over_runs_and_files_count_from_the_beginning(world: World) -> None:
    world.put_ids("history", 6, 10)
    job = copying(world)
    assert world.stop_in_batch(job, "rows", 3, overview_interval=0.05).status == "STOPPED"
    first = stored(world)
    (history,) = (source for source in first.sources if source.uid == "history")
    assert history.left == 6 - (history.done or 0) > 0
    released = first.sinks[0].counts["rows"]
    assert world.run(job, world.drain_at(60), overview_interval=0.05).status == "FINISHED"
    last = stored(world)
    (history,) = (source for source in last.sources if source.uid == "history")
    assert history.done == 6
    assert 0 < (history.rows or 0) <= 60 - released, "rows count since the driver began"
    assert last.sinks[0].counts["rows"] == 60


@pytest.mark.slow
def test_no_overview_is_written_if_the_option_is_zero(world: World) -> None:
    world.put_ids("history", 1, 10)
    assert world.run(copying(world), world.drain_at(10), overview_interval=0).status == "FINISHED"
    assert read_overview(world.storage, world.job_id) is None


@pytest.mark.slow
def test_an_overtaken_driver_does_not_replace_the_overview_of_its_successor(world: World) -> None:
    world.put_ids("history", 3, 10)
    later = JobOverview(world.job_id, 1.0, "RUNNING", 2)

    def overtake(line: Line) -> None:
        if line["kind"] == "released" and world.state().epoch == 1:
            journal = Journal(world.storage, world.job_id)
            journal.claim("later", Worker(), time.time())
            write_overview(world.storage, later)

    with suppress(OvertakenError):
        world.run(copying(world), overtake, overview_interval=3600)
    assert stored(world) == later


@pytest.mark.parametrize(
    ("latest", "end", "records"),
    [
        ('{"orders": {"0": 12, "1": 5}}', '{"orders": {"0": 10, "1": 5}}', 2),
        ('{"orders": {"0": 12, "1": 5}}', '{"orders": {"0": 10}}', 2),
        ('{"orders": {"0": 3}}', '{"orders": {"0": 10}}', 0),
        ('{"logOffset": 4}', '{"logOffset": 3}', None),
        ("7", "6", None),
        (None, '{"orders": {"0": 10}}', None),
        ("not json", "{}", None),
    ],
)
def test_unread_records_are_those_between_two_offsets_of_kafka(latest: Any, end: Any, records: int | None) -> None:
    assert unread_records(latest, end) == records
