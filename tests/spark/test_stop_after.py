"""The start of `stop_after`, and the last line of a run about unread and unreleased rows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import windows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

SECONDS = 0.3


def job_of(world: World) -> Job:
    """Build a job that copies a bounded folder, one file in each batch, and a live folder."""
    job = Job("copying")

    @job.source(bounded=True, allow_empty=True)
    def history(read: Any) -> Any:
        return read.schema("id long, k long").option("maxFilesPerTrigger", 1).parquet(world.path("history"))

    @job.source
    def live(read: Any) -> Any:
        return read.schema("id long, k long").parquet(world.path("live"))

    @job.transform(inputs=[history, live])
    def both(rows: Any) -> Any:
        return rows

    job.sink("lake", both, FileSink(world.path("out")))
    return job


def test_the_seconds_count_from_the_first_published_batch(world: World) -> None:
    """The first batch is published later than `stop_after` after RUNNING, as on a slow machine."""
    world.put_ids("history", 1, 3)
    world.put_ids("live", 1, 3, start=100)
    held: list[str] = []

    def hook(verb: str, path: str) -> None:
        if verb == "replace" and "/both/0/prepared/" in path and not held:
            held.append(path)
            wait_until(lambda: world.state().status == "RUNNING", "the job runs")
            until = time.monotonic() + 5 * SECONDS
            wait_until(lambda: time.monotonic() > until or world.state().status != "RUNNING", "the seconds have passed")

    run = world.run(job_of(world), storage=HookedStorage(world.storage, hook), stop_after=SECONDS)
    assert held
    assert run.status == "STOPPED"
    assert world.released_ids() == [0, 1, 2, 100, 101, 102]
    assert "released no row" not in run.lines[-1]["message"]


def test_a_job_without_input_stops_and_reports_no_released_rows(world: World) -> None:
    world.path("history")
    world.path("live")
    run = world.run(job_of(world), stop_after=SECONDS)
    assert run.status == "STOPPED"
    why = "no micro-batch ended: there was nothing new to read, or the run was too short"
    assert run.lines[-1]["message"] == f"job job STOPPED; this run released no row: {why}"


def test_a_stop_names_an_unfinished_bounded_source(world: World) -> None:
    world.put_ids("history", 4, 3)
    world.path("live")
    run = world.stop_in_batch(job_of(world), "both")
    assert run.status == "STOPPED"
    assert run.lines[-1]["message"] == "job job STOPPED; not read to the end: history; the next run reads the rest"
    assert world.released_ids() == [0, 1, 2]


def test_a_stop_names_open_windows(world: World) -> None:
    """A row's id is its event time in seconds."""
    world.put_ids("history", 1, 10)
    world.put_ids("live", 1, 10, 10)
    read = lambda: world.read_up_to("counts", "live") >= 0 and world.state().last_completed > 0  # noqa: E731
    run = world.run(windows(world), world.ask("stop", read))
    assert run.status == "STOPPED"
    assert [(row["id"], row["n"]) for row in world.released()] in ([], [(0, 10)])
    assert "windows of counts" in run.lines[-1]["message"]
    assert "(newest row: 1970-01-01 00:00:19Z)" in run.lines[-1]["message"]
    run = world.run(windows(world), world.ask("drain", lambda: world.state().epoch == 2))
    assert run.status == "FINISHED"
    assert sorted((row["id"], row["n"]) for row in world.released()) == [(0, 10), (10, 10)]
    assert "open" not in run.lines[-1]["message"]


def test_the_next_live_row_closes_windows_left_open_by_history(world: World) -> None:
    """A row's id is its event time in seconds. A live row that is read with history does not move event time."""
    world.put_ids("history", 2, 10)
    world.put_ids("live", 1, 1, start=100)
    left_out = lambda: bool(world.state().dropped) and world.read_up_to("counts", "live") == 0  # noqa: E731
    run = world.run(windows(world), world.ask("stop", left_out))
    assert run.status == "STOPPED"
    assert world.released() == []
    assert "windows of counts are open until the next row of live comes" in run.lines[-1]["message"]
    world.put_ids("live", 1, 1, start=101)
    run = world.run(windows(world), world.ask("stop", lambda: world.released_count() > 0))
    assert run.status == "STOPPED"
    assert [(row["id"], row["n"]) for row in world.released()] == [(0, 10), (10, 10)]
