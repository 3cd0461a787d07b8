"""Bounded sources without anything to read: a share that is not mounted, a late partition, a wrong path.

Such a job must not finish, because it would never read the files that come later.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.preparation import run_preparation
from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.spark.harness import World
from tests.spark.jobs import IDS, mixed

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
Read = Callable[[Any], DataFrame]


def reading(world: World, read: Read, **options: Any) -> Job:
    """Return a job that writes what ``read`` returns."""
    job = Job("reading")
    rows = job.source(uid="rows", bounded=True, **options)(lambda reader: read(reader))
    job.sink("out", rows, FileSink(world.path("out")))
    return job


def in_folder(world: World, *names: str) -> Read:
    paths = [str(world.base / name) for name in names]
    return lambda reader: reader.schema(IDS).format("parquet").load(paths[0] if len(paths) == 1 else paths)


@MODES
def test_an_empty_folder_is_refused_and_a_retry_reads_new_files(world: World, mode: str) -> None:
    world.path("in")

    def job() -> Job:
        return reading(world, in_folder(world, "in"))

    with pytest.raises(
        NothingToReadError, match=r"'rows' \(.*\) has nothing to read: there is no file in .*/in\."
    ) as e:
        world.run(job(), mode=mode)
    assert ExitCode.of_error(e.value) is ExitCode.FAILED
    assert world.everything_under_root() == []
    expected = world.put_ids("in", 2, 2)
    assert world.run(job(), mode=mode).status == "FINISHED"
    assert world.released_ids() == sorted(expected)


@MODES
def test_a_missing_folder_is_refused_and_a_retry_reads_new_files(world: World, mode: str) -> None:

    def job() -> Job:
        return reading(world, in_folder(world, "in"))

    with pytest.raises(NothingToReadError, match=r"'rows' \(.*\) reads .*/in, which does not exist") as e:
        world.run(job(), mode=mode)
    assert ExitCode.of_error(e.value) is ExitCode.FAILED
    assert world.everything_under_root() == []
    expected = world.put_ids("in", 2, 2)
    assert world.run(job(), mode=mode).status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_a_pattern_without_matches_is_refused(world: World) -> None:
    world.path("in")
    job = reading(world, in_folder(world, "in/day=*"))
    with pytest.raises(NothingToReadError, match=r"no file in .*/in/day=\*\."):
        world.run(job, mode="streaming")
    with pytest.raises(NothingToReadError, match=r"/in/day=\*, which does not exist"):
        world.run(job, mode="batch")


def test_an_empty_folder_without_a_schema_is_refused(world: World) -> None:
    folder = world.path("in")

    def job() -> Job:
        return reading(world, lambda reader: reader.parquet(folder))

    with pytest.raises(NothingToReadError, match="no file in"):
        world.run(job(), mode="batch")
    expected = world.put_ids("in", 1, 2)
    assert world.run(job(), mode="batch").status == "FINISHED"
    assert world.released_ids() == sorted(expected)


@MODES
@pytest.mark.parametrize("where", ["source", "transform"])
def test_a_missing_partition_column_of_an_empty_folder_is_retryable(world: World, mode: str, where: str) -> None:
    """Found by random jobs: the missing column refused the job for good, and no retry read the files that came."""
    folder = world.path("in")

    def used(rows: DataFrame) -> DataFrame:
        return rows.where("zone IS NOT NULL")

    def job() -> Job:
        read = in_folder(world, "in")
        made = Job("zones")
        made.source(uid="rows", bounded=True)(lambda reader: used(read(reader)) if where == "source" else read(reader))
        made.transform(uid="zoned", inputs=["rows"])(lambda rows: used(rows))
        made.sink("out", "zoned", FileSink(world.path("out")))
        return made

    with pytest.raises(NothingToReadError, match=r"source .rows. .* no file in .*/in\.") as e:
        world.run(job(), mode=mode)
    assert ExitCode.of_error(e.value) is ExitCode.FAILED
    assert world.everything_under_root() == []
    world.put_ids(f"{folder}/zone=1", 1, 2)
    assert world.run(job(), mode=mode).status == "FINISHED"
    assert world.released_ids() == [0, 1]


def test_each_of_several_folders_needs_a_file(world: World) -> None:
    expected = world.put_ids("a", 1, 2) | world.put_ids("a-b", 1, 2, 10)
    world.path("b")
    with pytest.raises(NothingToReadError, match=r"no file in .*/b\."):
        world.run(reading(world, in_folder(world, "a", "b", "a-b")))
    shutil.rmtree(world.base / "b")
    with pytest.raises(NothingToReadError, match="/b, which"):
        world.run(reading(world, in_folder(world, "a", "b", "a-b")))
    (file,) = (Path(world.path("a-b"))).iterdir()
    several = in_folder(world, "a", f"a-b/{file.name}", "a/../a-*")
    assert world.run(reading(world, several)).status == "FINISHED"
    assert world.released_ids() == sorted(expected)


@MODES
def test_a_source_that_may_be_empty_ends_at_once(world: World, mode: str) -> None:
    world.path("in")
    run = world.run(reading(world, in_folder(world, "in"), allow_empty=True), mode=mode)
    assert (run.status, world.released_ids()) == ("FINISHED", [])
    assert "ends at once: there is no file in" in run.of("warning")[0]["message"]


def test_empty_history_next_to_a_live_source_is_refused(world: World) -> None:
    world.put_ids("live", 1, 2)
    with pytest.raises(NothingToReadError, match="'history'"):
        world.run(mixed(world))
    assert world.everything_under_root() == []


def test_a_folder_emptied_before_its_list_is_recorded_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.path("in")
    monkeypatch.setattr(run_preparation, "_refuse_empty", lambda *given: None)
    with pytest.raises(NothingToReadError, match="no file in"):
        world.run(reading(world, in_folder(world, "in")), mode="streaming")
    assert world.state().frozen == {}
    monkeypatch.undo()
    expected = world.put_ids("in", 1, 2)
    assert world.run(reading(world, in_folder(world, "in")), mode="streaming").status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_a_missing_live_folder_is_refused_as_nothing_to_read(world: World) -> None:
    world.put_ids("history", 1, 2)
    job = mixed(world)
    shutil.rmtree(world.path("live"))

    def live(reader: Any) -> DataFrame:
        return reader.schema(IDS).parquet(str(world.base / "live"))  # type: ignore[no-any-return]

    object.__setattr__(job.operators["live"], "function", live)
    with pytest.raises(NothingToReadError, match="/live, which does not exist"):
        world.run(job)


def test_a_missing_folder_read_by_a_transform_is_retryable(world: World) -> None:
    expected = world.put_ids("in", 1, 2)
    job = Job("looks_up")
    rows = job.source(uid="rows", bounded=True)(lambda reader: reader.schema(IDS).parquet(world.path("in")))

    @job.transform(inputs=[rows])
    def looked_up(rows: DataFrame) -> DataFrame:
        names = rows.sparkSession.read.schema("id long, name string").parquet(str(world.base / "names"))
        return rows.join(names, "id", "left")

    job.sink("out", looked_up, FileSink(world.path("out")))
    with pytest.raises(Exception, match=r"'looked_up'.*Another try calls it again") as e:
        world.run(job, mode="batch")
    assert ExitCode.of_error(e.value) is ExitCode.FAILED
    world.path("names")
    assert world.run(job, mode="batch").status == "FINISHED"
    assert world.released_ids() == sorted(expected)
