"""Files that producers are still writing when they are read, or that they replace. The producers are processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.sources import file_polls
from airflow_provider_ckpt.spark.query.sources.file_index import read_status
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_files, list_statuses
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task import batch_files
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.task import read_files
from airflow_provider_ckpt.task.read_files import key_of
from tests.spark.harness import Line, World
from tests.support.producers import write_and_rename, writing_in_place
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "FIRST_COMPARISON", 0.5)
    monkeypatch.setattr(file_polls, "SETTLED", 1.0)
    monkeypatch.setattr(batch_files, "SETTLED", 1.0)


def reading(world: World, *, bounded: bool = False, feed: str = "feed", **source: Any) -> Job:
    job = Job("reading")

    @job.source(bounded=bounded, **source)
    def rows(read: DataStreamReader) -> DataFrame:
        return read.schema("id long").json(world.path(feed))

    job.sink("out", rows, FileSink(world.path("out")))
    return job


def place(world: World, name: str, feed: str = "feed") -> Path:
    return Path(world.path(feed)) / name


def put(path: Path, ids: range, modified: float | None = None) -> None:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f'{{"id": {n}}}\n' for n in ids))
    if modified is not None:
        os.utime(hidden, (modified, modified))
    hidden.rename(path)


def reports(lines: list[Line]) -> list[str]:
    return [line["message"] for line in lines if line["kind"] == "changed_files"]


def test_a_live_file_written_in_place_is_reported(world: World) -> None:
    gate, file = world.base / "gate", place(world, "a.json")
    lines: list[Line] = []
    drain = world.ask("drain", lambda: bool(reports(lines)))

    def on_line(line: Line) -> None:
        lines.append(line)
        if world.released_count() == 1:
            gate.touch()
        drain(line)

    with writing_in_place(file, 1, 500, gate=gate):
        wait_until(file.exists, "the file")
        run = world.run(reading(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0], "Spark reads a file up to its size in the listing"
    unread = file.stat().st_size - len('{"id": 0}\n')
    assert f"{file} grew after it was read: " in reports(run.lines)[0]
    assert "hidden name" in reports(run.lines)[0]
    assert world.state().changed_counts == {"rows": {"files": len(reports(run.lines)), "bytes": unread}}
    assert f"{unread} bytes were not read" in run.lines[-1]["message"]
    assert run.lines[-1]["changed_files"] == len(reports(run.lines))


def test_a_bounded_file_written_in_place_fails_the_job(world: World) -> None:
    gate, file = world.base / "gate", place(world, "a.json")

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            wait_until(lambda: world.newest_batch("rows") == 0, "the first batch")
            gate.touch()
            wait_until(lambda: file.stat().st_size > 100, "more rows")

    with writing_in_place(file, 1, 500, gate=gate):
        wait_until(file.exists, "the file")
        run = world.run(reading(world, bounded=True), on_line, mode="streaming")
        assert run.status == "FAILED"
        assert f"{file} grew after it was read" in str(run.cause)
        assert "--resume-failed" in str(run.cause)
    again = world.run(reading(world, bounded=True), mode="streaming", resume_failed=True)
    assert again.status == "FINISHED"
    assert world.released_ids() == [0]
    assert "bytes were not read" in again.lines[-1]["message"]


def test_history_next_to_a_live_source_is_compared_at_its_end(world: World) -> None:
    """An old file that grows later is seen when its source ends, although it is not young."""
    put(place(world, "old.json", "history"), range(5), time.time() - 3600)
    job = Job("both")

    @job.source(bounded=True, unfinished_files="warn")
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema("id long").json(world.path("history"))

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id long").json(world.path("feed"))

    @job.transform(inputs=[history, live])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))
    put(place(world, "old.json", "feed"), range(10, 15), time.time() - 3600)
    appended: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "source_dropped" and not appended:
            with place(world, "old.json", "history").open("a") as out:
                out.write('{"id": 5}\n')
            appended.append("old.json")
        drain(line)

    drain = world.ask("drain", lambda: bool(appended) and world.released_count() == 10)
    run = world.run(job, on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.state().changed_counts == {"history": {"files": 1, "bytes": 10}}


def test_a_file_written_under_a_hidden_name_is_read_whole(world: World) -> None:
    write_and_rename(place(world, "a.json"), place(world, ".a.json.tmp"), 501)
    run = world.run(reading(world, bounded=True), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(501)]
    assert reports(run.lines) == []
    assert world.state().changed_counts == {}


def test_a_file_replaced_under_its_name_is_reported(world: World) -> None:
    put(place(world, "a.json"), range(100))

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 100 and not replaced:
            write_and_rename(place(world, "a.json"), place(world, ".new"), 10)
            replaced.append("a.json")
        drain(line)

    replaced: list[str] = []
    drain = world.ask("drain", lambda: bool(replaced))
    run = world.run(reading(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert "was replaced after it was read" in reports(run.lines)[0]


def test_the_next_run_reports_a_file_that_grew_after_a_stop(world: World) -> None:
    file = place(world, "a.json")
    put(file, range(5), time.time() - 3600)
    run = world.run(reading(world), world.ask("stop", lambda: world.released_count() == 5))
    assert (run.status, reports(run.lines)) == ("STOPPED", [])
    with file.open("a") as out:
        out.write('{"id": 5}\n')
    run = world.run(reading(world), world.ask("drain", lambda: True))
    assert run.status == "FINISHED"
    assert f"{file} changed after its batch was planned" in reports(run.lines)[0]
    assert run.lines[-1]["changed_files"] == 1


def test_the_stopping_run_reports_a_file_that_grew_before_the_stop(world: World) -> None:
    file = place(world, "a.json")
    put(file, range(5), time.time() - 3600)

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 5 and file.stat().st_size < 55:
            with file.open("a") as out:
                out.write('{"id": 5}\n')
        stop(line)

    stop = world.ask("stop", lambda: file.stat().st_size > 50)
    run = world.run(reading(world), on_line)
    assert run.status == "STOPPED"
    assert f"{file} grew after it was read: 10 bytes were not read" in reports(run.lines)[0]
    assert "10 bytes were not read" in run.lines[-1]["message"]


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "live"])
def test_with_wait_a_file_is_read_once_its_producer_has_finished(world: World, bounded: bool) -> None:
    with writing_in_place(place(world, "a.json"), 1, 50, pause=0.03):
        wait_until(place(world, "a.json").exists, "the file")
        job = reading(world, bounded=bounded, unfinished_files="wait")
        run = world.run(job, world.drain_at(51), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(51)]
    assert reports(run.lines) == []


def test_in_batch_mode_a_retry_reads_a_grown_file_whole(world: World) -> None:
    file = place(world, "a.json")
    put(file, range(5), time.time() - 3600)
    job = Job("batch")

    @job.source(bounded=True)
    def rows(read: DataStreamReader) -> DataFrame:
        frame = read.schema("id long").json(world.path("feed"))
        if file.stat().st_size == 50 and world.root.exists() and world.state().epoch:
            with file.open("a") as out:
                out.write('{"id": 5}\n')
        return frame

    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job, mode="batch")
    assert run.status == "RESTARTING"
    assert f"{file} grew after it was read: 10 bytes" in str(run.cause)
    assert world.released_count() == 0
    run = world.run(job, mode="batch")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(6)]


def test_odd_names_are_listed_with_their_sizes_and_times(spark: SparkSession, world: World) -> None:
    names = ["a b.json", "ü%20;=.json", "c; isDirectory=false; length=7; modification_time=1;.json", "d\ne.json"]
    for number, name in enumerate(names):
        put(place(world, name), range(number + 1), 1_000_000.0 + number)
    reads = SourceReads("json", paths=[world.path("feed")])
    statuses = list_statuses(spark, reads)
    expected = {
        str(place(world, name)).lstrip("/"): (10 * (at + 1), 1_000_000_000 + 1000 * at) for at, name in enumerate(names)
    }
    assert {key_of(listed.path): (listed.size, listed.modified) for listed in statuses} == expected
    assert len(list_files(spark, reads)) == len(names)
    jvm: Any = spark._jvm
    status = jvm.org.apache.hadoop.fs.Path(f"file://{place(world, 'a b.json')}")
    local = status.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    assert read_status(local.getFileStatus(status).toString()) in statuses
    assert normal_path("file:///x/a%20b") == key_of("file:/x/a b")
