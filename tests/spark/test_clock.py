"""Changes of the machine's clock: only deadlines set by a user follow them."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from threading import Timer
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import WallClock
from tests.spark.counting_job import UserScript
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS, mixed
from tests.support.waiting import wait_until

HOUR = 3600.0


def test_setting_the_machines_clock_does_not_change_the_clock() -> None:
    wall, steady = [1_000_000.0], [50.0]
    clock = Clock(lambda: wall[0], lambda: steady[0])
    assert clock.now() == 1_000_000.0
    steady[0] += 2.0
    for now in (1_000_000.0 - HOUR, 1_000_000.0 + HOUR):
        wall[0] = now
        assert clock.now() == 1_000_002.0
        assert clock.wall() == now
        assert clock.to_wall(1_000_001.0) == now - 1


def test_b8_setting_the_clock_back_stops_neither_checkpoints_nor_polls(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that uses the machine's clock pauses for an hour: it checks no fence and reads no request."""
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000)
    real, back, too_late = time.time, [0.0], []

    def give_up() -> None:
        too_late.append(back.pop())

    monkeypatch.setattr(time, "time", lambda: real() - sum(back))
    watch = Timer(120.0, give_up)  # a paused driver fails the run instead of hanging; below the time limit of a mutant
    seen: list[str] = []

    def resumes() -> bool:
        return world.released_count() >= len(expected) and seen[seen.index("running") :].count("checkpoint") >= 2

    drain = world.ask("drain", lambda: "running" in seen and resumes())

    def on_line(line: Line) -> None:
        seen.append(line["kind"])
        if line["kind"] == "running":
            back.append(HOUR)
            watch.start()
        drain(line)

    try:
        run = world.run(mixed(world), on_line)
    finally:
        watch.cancel()
    assert (run.status, too_late) == ("FINISHED", [])
    assert world.released_ids() == sorted(expected)
    done = world.state().checkpoints
    times = [
        (checkpoint.triggered_at, checkpoint.at, world.state().releases[number].at)
        for number, checkpoint in sorted(done.items())
    ]
    assert all(triggered <= at <= released for triggered, at, released in times)
    # The recorded times follow the set-back clock. A sensor that waits for a checkpoint since 15 minutes ago sees none.
    assert max(at for of_one in times[-2:] for at in of_one) < real() - HOUR / 4


def test_a_time_set_by_a_user_follows_the_machines_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + sum(ahead))
    at = datetime.fromtimestamp(real() + HOUR, timezone.utc).isoformat()

    def on_line(line: Line) -> None:
        if line["kind"] == "released":
            ahead.append(2 * HOUR)

    run = world.run(mixed(world), on_line, stop_at=at)
    assert run.status == "STOPPED"


def test_setting_the_clock_back_is_reported_once() -> None:
    wall, steady = [1000.0], [50.0]
    clock = WallClock(lambda: wall[0], lambda: steady[0])
    wall[0], steady[0] = wall[0] + 7, steady[0] + 7
    assert clock.set_back() == 0.0
    wall[0] -= HOUR
    assert (clock.set_back(), clock.set_back()) == (HOUR, 0.0)
    wall[0] += HOUR
    assert clock.set_back() == -HOUR


def test_b8_setting_the_clock_back_restarts_a_query_waiting_for_a_trigger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits for the next trigger on the machine's clock.

    The test cannot set back the JVM's clock. It checks that the query is stopped at a boundary and started again, an
    hour early. No row is lost or repeated.
    """
    job = Job("live")
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    job.sink("out", live, FileSink(world.path("out")))
    expected = world.put_ids("live", 2, 2)
    real, back = time.time, [0.0]
    runs: list[float] = []
    run_query = RunningQuery.run

    def run(self: RunningQuery, *given: Any) -> None:
        run_query(self, *given)
        runs.append(real())

    monkeypatch.setattr(time, "time", lambda: real() - sum(back))
    monkeypatch.setattr(RunningQuery, "run", run)

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= len(expected), "the first rows", seconds=60)
        assert len(runs) == 1
        back.append(HOUR)
        wait_until(lambda: len(runs) == 2, "the restart of the query", seconds=60)
        expected.update(world.put_ids("live", 1, 2, 100))
        wait_until(lambda: world.released_count() >= len(expected), "rows after the restart", seconds=60)
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        ended = world.run(job, trigger_interval=0.5)
    assert ended.status == "FINISHED", ended.cause
    assert world.released_ids() == sorted(expected)
    assert len(runs) == 2
