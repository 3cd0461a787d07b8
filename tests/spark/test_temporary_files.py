"""Files under temporary names, which their producers rename, and files that vanish before they are read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.errors import ForgottenFileError
from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from airflow_provider_ckpt.sparkfiles.temporary_names import SUFFIXES, has_temporary_name, other_names, temporary_names
from tests.spark.harness import Line, World
from tests.spark.jobs import mixed
from tests.spark.test_planned_files import killed_when_planned
from tests.support.producers import write_and_rename

pytestmark = pytest.mark.slow


def reading(world: World, *, bounded: bool = False, glob: str | None = None, **source: Any) -> Job:
    job = Job("reading")

    @job.source(bounded=bounded, **source)
    def rows(read: DataStreamReader) -> DataFrame:
        options = {} if glob is None else {"pathGlobFilter": glob}
        return read.schema("id long").options(**options).json(world.path("feed"))

    job.sink("out", rows, FileSink(world.path("out")))
    return job


def put(world: World, name: str, *ids: int) -> Path:
    path = Path(world.path("feed")) / name
    path.write_text("".join(f'{{"id": {n}}}\n' for n in ids))
    os.utime(path, (world.began, world.began))
    return path


def test_hadoops_pattern_matches_all_names_except_temporary_ones(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    others = jvm.org.apache.hadoop.fs.GlobPattern(other_names())
    temporary = jvm.org.apache.hadoop.fs.GlobPattern(temporary_names())
    names = [
        "a.json",
        "part",
        "tmp",
        "p",
        "t",
        "a.tmp.json",
        "part-0000",
        "x.parts",
        "a.partial.gz",
        "COPYING_",
        "aCOPYING_",
        "ü",
    ]
    names += ["filepart", "a.part1", "a_part", "a.tm", "mp", "x.crdownloaded", ".", "a b.c", "x.TMP"]
    for suffix in SUFFIXES:
        names += [f"a{suffix}", f"a.json{suffix}", suffix, suffix[1:], f"a{suffix}{suffix}", f"a{suffix}x", suffix[:-1]]
    assert {name: bool(others.matches(name)) for name in names} == {
        name: not has_temporary_name(name) for name in names
    }
    assert {name: bool(temporary.matches(name)) for name in names} == {name: has_temporary_name(name) for name in names}
    assert len(other_names()) < 500


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_files_with_temporary_names_are_left_out_with_a_warning(world: World, mode: str) -> None:
    put(world, "a.json", 1)
    for suffix in (*SUFFIXES, "._COPYING_"):
        put(world, f"b.json{suffix}", 2)
    run = world.run(reading(world, bounded=True), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1]
    (warning,) = [line["message"] for line in run.of("warning")]
    assert f"leaves out {len(SUFFIXES)} files with names of temporary files" in warning


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_files_with_temporary_names_are_read_on_request(world: World, mode: str) -> None:
    put(world, "a.json", 1)
    put(world, "b.json.tmp", 2)
    world.run(reading(world, bounded=True, temporary_files="read"), mode=mode)
    assert world.released_ids() == [1, 2]


def test_a_users_own_pattern_decides_alone(world: World) -> None:
    put(world, "a.json", 1)
    put(world, "b.json.tmp", 2)
    run = world.run(reading(world, bounded=True, glob="b*"))
    assert world.released_ids() == [2]
    assert run.of("warning") == []


def test_a_folder_with_temporary_files_only_is_refused_by_name(world: World) -> None:
    put(world, "b.json.tmp", 2)
    with pytest.raises(NothingToReadError, match=r"but 1 with the names of temporary files \(/.*b\.json\.tmp\)"):
        world.run(reading(world, bounded=True))


def test_a_renamed_live_file_is_read_once_under_its_final_name(world: World) -> None:
    put(world, "a.json", 1)
    waiting = put(world, "b.json.tmp", 2)
    renamed: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and not renamed:
            waiting.rename(waiting.with_suffix(""))
            write_and_rename(waiting.with_name("c.json"), waiting.with_name("c.json.tmp"), 1)
            renamed.append("b.json")
        drain(line)

    drain = world.drain_at(3)
    run = world.run(reading(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 2]


def lose_planned_file(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Let a driver die with a planned batch, and rename a file of that batch.

    Return the file and the cause of the failed run.
    """
    world.put_ids("history", 1, 2)
    world.put_ids("live", 2, 2, 1000)
    assert killed_when_planned(world, monkeypatch, "live", chain=True).status == "RESTARTING"
    file = Path(world.path("live")) / "001000.parquet"
    file.rename(file.with_name("renamed.parquet"))
    run = world.run(mixed(world))
    assert run.status == "FAILED"
    return file, str(run.cause)


def test_a_renamed_planned_file_can_be_abandoned_by_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file, cause = lose_planned_file(world, monkeypatch)
    assert f"--forget-file {file} " in cause
    run = world.run(mixed(world), world.drain_at(6), resume_failed=True, forget_files=[str(file)])
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 1000, 1001, 1002, 1003], "read under its new name"
    assert world.state().forgotten_files == [str(file)]
    assert "gave up 1 file, whose rows are not in the output: " in run.of("warning")[0]["message"]
    assert "files given up since the job began: 1" in run.lines[-1]["message"]


def test_a_lost_file_of_the_frozen_list_can_be_abandoned_by_name(world: World) -> None:
    world.put_ids("history", 3, 2)
    world.put_ids("live", 1, 2, 1000)
    run = world.stop_in_batch(mixed(world), "doubled")
    assert run.status == "STOPPED"
    file = Path(world.path("history")) / "000004.parquet"
    file.unlink()
    run = world.run(mixed(world), world.drain_at(6), forget_files=[f"file://{file}"])
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 2, 3, 1000, 1001]
    assert re.search("given up", run.lines[-1]["message"])


def test_abandoning_a_file_without_a_waiting_source_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = lose_planned_file(world, monkeypatch)
    wrong = file.with_name("001001.parquet")
    with pytest.raises(ForgottenFileError, match="no source of the job waits for this file") as refused:
        world.run(mixed(world), resume_failed=True, forget_files=[str(wrong)])
    assert f"--forget-file {wrong}: no source" in str(refused.value)
    assert f"Its sources wait for these files, which are gone: {file}." in str(refused.value)
    assert world.state().forgotten_files == []


def test_the_refusal_names_only_lost_files_that_are_unread(world: World) -> None:
    """A wrong name is refused. The refusal lists the lost files that are unread."""
    world.put_ids("history", 3, 2)
    world.put_ids("live", 1, 2, 1000)
    assert world.stop_in_batch(mixed(world), "doubled").status == "STOPPED"
    read, unread = (Path(world.path("history")) / name for name in ("000000.parquet", "000004.parquet"))
    read.unlink()
    unread.unlink()
    with pytest.raises(ForgottenFileError, match=f"are gone: {unread}\\."):
        world.run(mixed(world), forget_files=[str(unread.with_name("nothing.parquet"))])


def test_abandoning_an_existing_file_is_refused(world: World) -> None:
    file = put(world, "a.json", 1)
    with pytest.raises(ForgottenFileError, match="the file exists, and the job reads it"):
        world.run(reading(world, bounded=True), forget_files=[str(file)])
    assert not world.root.exists() or world.state().epoch == 0
