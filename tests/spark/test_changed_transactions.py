"""Sinks that begin or stop sharing a transaction while output of earlier runs is staged and unreleased."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job, PendingRelease, SqlSink
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.jobmaster.errors import ReleaseHeldError
from tests.spark.harness import World, stop_on_another_host
from tests.spark.jobs import IDS

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def job_of(world: World, tables: Mapping[str, str | None], *closed: str) -> Job:
    """Return a job with one sink for each table, each with its transaction and a gate.

    The gates of the ``closed`` sinks are shut.
    """
    job = Job("shop")
    path = world.base / "shop.db"
    with sqlite3.connect(path) as connection:
        for name in tables:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (id bigint NOT NULL)")
    connection.close()

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live")).select("id")

    def gate(pending: PendingRelease) -> bool:
        return pending.sink not in closed

    job.sink("out", live, FileSink(world.path("out")))
    for name, transaction in tables.items():
        sink = SqlSink(name, url=f"sqlite:///{path}")
        job.sink(name, live, sink, transaction=transaction, gate=gate)
    return job


def shown(world: World, table: str) -> list[int]:
    connection = sqlite3.connect(world.base / "shop.db")
    ids = sorted(row[0] for row in connection.execute(f"SELECT id FROM {table}"))
    connection.close()
    return ids


@pytest.mark.parametrize("way", ["run", "release"])
@pytest.mark.parametrize(
    "then",
    [
        {"a": None, "b": None},
        {"b": "shop", "a": "shop", "c": "shop"},
        {"a": "other", "b": None, "c": "other"},
    ],
    ids=["dissolved", "grown", "moved"],
)
def test_held_output_is_shown_once_when_transactions_change(world: World, then: Mapping[str, Any], way: str) -> None:
    before = world.put_ids("live", 3, 2)
    stop = world.ask("stop", lambda: world.released_count("out") == len(before))
    stop_on_another_host(world, job_of(world, {"a": "shop", "b": "shop"}, "b"), stop)
    assert shown(world, "a") == shown(world, "b") == []

    if way == "release":
        with pytest.raises(ReleaseHeldError):
            JobClient(world.storage, world.job_id).release(job_of(world, then, "b"))
        apart = then["a"] is None or then["a"] != then["b"]
        assert (shown(world, "a"), shown(world, "b")) == (sorted(before) if apart else [], [])
    more = world.put_ids("live", 2, 2, start=100)
    run = world.run(job_of(world, then), world.drain_at(len(before | more)))
    assert run.status == "FINISHED"
    assert shown(world, "a") == shown(world, "b") == sorted(before | more)
    if "c" in then:
        assert shown(world, "c") == sorted(more)
    rows = {
        uid: sum(release.sinks.get(uid, {}).get("rows", 0) for release in world.state().releases.values())
        for uid in ("a", "b")
    }
    assert rows == {"a": len(before | more), "b": len(before | more)}
