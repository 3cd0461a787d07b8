"""Drains, which read the files and rows that exist at the request. Producers are separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import DrainRequest
from tests.spark.harness import Line, World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow

_KEEPS_WRITING = """
import itertools, os, sys, time
folder = sys.argv[1]
for number in itertools.count():
    hidden, name = (os.path.join(folder, f"{dot}n{number:06}.json") for dot in (".", ""))
    with open(hidden, "w") as out:
        out.write('{"id": %d}\\n' % (1000 + number))
    os.rename(hidden, name)
    time.sleep(0.02)
"""


@contextmanager
def keeps_writing(folder: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", _KEEPS_WRITING, folder]) as process:
        try:
            yield
        finally:
            process.kill()


def reading(world: World, **source: Any) -> Job:
    job = Job("reading")

    @job.source(**source)
    def rows(read: DataStreamReader) -> DataFrame:
        return read.schema("id long").json(world.path("feed"))

    job.sink("out", rows, FileSink(world.path("out")))
    return job


def put(world: World, *ids: int) -> None:
    world.puts += 1
    for number in ids:
        hidden = Path(world.path("feed")) / f".{number:06}.json"
        hidden.write_text(f'{{"id": {number}}}\n')
        os.utime(hidden, (world.began + number, world.began + number))
        hidden.rename(hidden.with_name(hidden.name[1:]))


def test_a_drain_reads_files_that_wait_at_its_request(world: World) -> None:
    """The query would find them at its next trigger, an hour later."""
    put(world, 0)

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 1:
            put(world, *range(1, 61))
        drain(line)

    drain = world.drain_at(1)
    run = world.run(reading(world, max_files_per_trigger=10), on_line, trigger_interval=3600.0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(61)]
    assert run.of("warning") == []


def test_a_drain_right_after_the_start_reads_files_from_before_it(world: World) -> None:
    put(world, *range(50))
    run = world.run(reading(world, max_files_per_trigger=7), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(50)]


def test_a_drain_ends_although_the_producer_keeps_writing(world: World) -> None:
    put(world, *range(5))
    with keeps_writing(world.path("feed")):
        run = world.run(reading(world, max_files_per_trigger=50), world.drain_at(5))
    assert (run.status, run.cause) == ("FINISHED", None)
    released = world.released_ids()
    assert released[:5] == [*range(5)]
    assert released == [*range(5), *range(1000, 1000 + len(released) - 5)]
    assert "files (" in run.of("warning")[-1]["message"], "the warning counts files that came later"


def test_an_immediate_drain_warns_of_unread_files(world: World) -> None:
    put(world, 0)

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 1 and not asked:
            put(world, *range(1, 61))
            asked.append(
                write_request(world.storage, world.job_id, DrainRequest(at_once=True, epoch=world.state().epoch)).name
            )

    asked: list[str] = []
    run = world.run(reading(world), on_line, trigger_interval=3600.0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0]
    left = sum(path.stat().st_size for path in Path(world.path("feed")).glob("0*.json")) - 10
    (warning,) = [line["message"] for line in run.of("warning")]
    assert warning == f"the drain has ended source rows, and left 60 files ({left} bytes) unread"


def test_a_drain_outputs_windows_of_waiting_rows_and_reads_history(world: World) -> None:
    job = Job("counting")

    def timed(rows: DataFrame) -> DataFrame:
        return rows.withColumn("ts", F.timestamp_seconds("id"))

    @job.source(bounded=True, watermark=("ts", "1 second"))
    def history(read: DataStreamReader) -> DataFrame:
        return timed(read.schema("id long").json(world.path("old")))

    @job.source(watermark=("ts", "1 second"))
    def live(read: DataStreamReader) -> DataFrame:
        return timed(read.schema("id long").json(world.path("feed")))

    @job.transform(inputs=[history, live])
    def counts(rows: DataFrame) -> DataFrame:
        counted = rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
        return counted.select(F.unix_seconds("window.start").alias("id"), "n")

    job.sink("out", counts, FileSink(world.path("out")))
    (Path(world.path("old")) / "a.json").write_text("".join(f'{{"id": {n}}}\n' for n in range(20)))
    os.utime(Path(world.path("old")) / "a.json", (world.began, world.began))
    put(world, 100)
    with_more: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "source_dropped" and not with_more:
            put(world, *range(101, 130))
            with_more.append("done")
        drain(line)

    drain = world.ask("drain", lambda: bool(world.state().dropped))
    run = world.run(job, on_line, trigger_interval=1.0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert {row["id"]: row["n"] for row in world.released()} == dict.fromkeys([0, 10, 100, 110, 120], 10)


def test_a_drain_reads_a_result_partition_to_its_end(world: World) -> None:
    """Each query of the job is drained after its producer has ended."""
    expected = world.put_ids("history", 2, 3) | world.put_ids("live", 5, 2, 1000)
    job = mixed(world, chain=False)
    run = world.run(job, world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_client_requests_an_immediate_drain(world: World) -> None:
    put(world, 0)

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 1 and not asked:
            put(world, 1)
            asked.append(JobClient(str(world.root), world.job_id).drain(at_once=True).name)

    asked: list[str] = []
    run = world.run(reading(world), on_line, trigger_interval=3600.0)
    assert run.status == "FINISHED"
    assert world.released_ids() == [0]
