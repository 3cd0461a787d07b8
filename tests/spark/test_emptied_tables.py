"""A table that is emptied or dropped while its job is stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import SqlSink
from airflow_provider_ckpt.sinks.errors import OutputLostError
from tests.spark.harness import Run, World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow


def warnings(run: Run) -> list[str]:
    return [line["message"] for line in run.of("warning") if "If the table was emptied" in line["message"]]


def select(file: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        return database.execute(statement).fetchall()


def test_a_start_warns_of_an_emptied_table(world: World) -> None:
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 1, 2, 1000)
    stopped = world.run(mixed(world), world.ask("stop", lambda: world.released_count() == len(expected)))
    assert (stopped.status, warnings(stopped)) == ("STOPPED", [])
    for file in Path(world.path("out")).glob("part-*"):
        file.unlink()
    world.put_ids("live", 1, 2, 2000)
    run = world.run(mixed(world), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    [warning] = warnings(run)
    assert warning.startswith("sink out: no file of its last release, checkpoint ")
    assert len([*Path(world.path("out")).glob("part-*")]) > 0


def test_r9_a_start_refuses_a_dropped_table_and_warns_of_an_emptied_one(world: World) -> None:
    file = world.base / "shop.db"
    file.touch()
    table = SqlSink("clicks", url=f"sqlite:///{file}", create=True)

    def count() -> int:
        return sum(
            state.get("rows", 0) for release in world.state().releases.values() for state in release.sinks.values()
        )

    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    stopped = world.run(mixed(world, sink=lambda path: table), world.ask("stop", lambda: count() == 4))
    assert (stopped.status, warnings(stopped)) == ("STOPPED", [])
    rows = select(file, "SELECT id, k, twice FROM clicks ORDER BY id")
    assert [row[0] for row in rows] == [0, 1, 1000, 1001]

    select(file, "DROP TABLE clicks")
    world.put_ids("live", 1, 2, 2000)
    written = world.everything_under_root()
    with pytest.raises(OutputLostError, match=r"there is no table main\.clicks, and its ledger"):
        world.run(mixed(world, sink=lambda path: table))
    assert world.everything_under_root() == written
    assert select(file, "SELECT name FROM sqlite_master WHERE name = 'clicks'") == []

    select(file, "CREATE TABLE clicks (id BIGINT, k BIGINT, twice BIGINT)")
    run = world.run(mixed(world, sink=lambda path: table), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    [warning] = warnings(run)
    assert warning.startswith("sink out: table main.clicks is empty, and checkpoint ")
    assert select(file, "SELECT id FROM clicks ORDER BY id") == [(2000,), (2001,)]
