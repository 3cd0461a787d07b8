"""Setting the machine's clock changes nothing but the times that a user gave."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from threading import Timer

import pytest

from airflow_provider_ckpt.jobmaster.clock import Clock
from tests.spark.harness import Line, World
from tests.spark.jobs import mixed

HOUR = 3600.0


def test_the_clock_goes_on_when_the_machines_clock_is_set() -> None:
    wall, steady = [1_000_000.0], [50.0]
    clock = Clock(lambda: wall[0], lambda: steady[0])
    assert clock.now() == 1_000_000.0
    steady[0] += 2.0
    for now in (1_000_000.0 - HOUR, 1_000_000.0 + HOUR):
        wall[0] = now
        assert clock.now() == 1_000_002.0
        assert clock.wall() == now


def test_b8_a_step_back_of_an_hour_stops_neither_checkpoints_nor_looks_around(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver went blind until the hour had passed again: no fence was checked, no request read."""
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000)
    real, back, too_late = time.time, [0.0], []

    def give_up() -> None:
        too_late.append(back.pop())

    monkeypatch.setattr(time, "time", lambda: real() - sum(back))
    watch = Timer(120.0, give_up)  # a run that goes blind fails, and does not hang; it is below the limit of a mutant
    seen: list[str] = []

    def goes_on() -> bool:
        return world.released_count() >= len(expected) and seen[seen.index("running") :].count("checkpoint") >= 2

    drain = world.ask("drain", lambda: "running" in seen and goes_on())

    def hear(line: Line) -> None:
        seen.append(line["kind"])
        if line["kind"] == "running":
            back.append(HOUR)
            watch.start()
        drain(line)

    try:
        run = world.run(mixed(world), hear)
    finally:
        watch.cancel()
    assert (run.status, too_late) == ("FINISHED", [])
    assert world.released_ids() == sorted(expected)


def test_a_time_that_a_user_gave_is_one_of_the_machines_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + sum(ahead))
    at = datetime.fromtimestamp(real() + HOUR, timezone.utc).isoformat()

    def hear(line: Line) -> None:
        if line["kind"] == "released":
            ahead.append(2 * HOUR)

    run = world.run(mixed(world), hear, stop_at=at)
    assert run.status == "STOPPED"
