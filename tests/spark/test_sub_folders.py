"""Files in subfolders of a source's folder: Spark does not read them, so they are named or counted."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from tests.spark.harness import World
from tests.spark.jobs import IDS

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])


def reading(world: World, **source: Any) -> Job:
    job = Job("reading")
    given: dict[str, Any] = {"bounded": True, "max_files_per_trigger": 1, **source}
    rows = job.source(uid="rows", **given)(lambda reader: reader.schema(IDS).parquet(world.path("in")))
    job.sink("out", rows, FileSink(world.path("out")))
    return job


@MODES
def test_files_only_in_subfolders_are_named(world: World, mode: str) -> None:
    world.put_ids("in/2025", 2, 2)
    world.put_ids("in/2026", 1, 2)
    with pytest.raises(NothingToReadError, match=r"no file in .*/in itself, and there are 3 files in /.*/in/2025, /"):
        world.run(reading(world), mode=mode)
    assert world.everything_under_root() == []


@MODES
def test_files_in_subfolders_are_counted_in_a_warning(world: World, mode: str) -> None:
    world.put_ids("in", 1, 2)
    world.put_ids("in/archive", 2, 2, 10)
    run = world.run(reading(world), mode=mode)
    assert (run.status, world.released_ids()) == ("FINISHED", [0, 1])
    (warning,) = [line["message"] for line in run.of("warning") if "leaves out" in line["message"]]
    assert "source rows leaves out 2 files in /" in warning
    assert "/in/archive: Spark reads the files of a folder" in warning


def test_a_live_source_counts_files_in_subfolders(world: World) -> None:
    world.put_ids("in", 1, 2)
    world.put_ids("in/archive", 2, 2, 10)
    run = world.run(reading(world, bounded=False), world.drain_at(2))
    assert sum("leaves out 2 files" in line["message"] for line in run.of("warning")) == 1


@pytest.mark.parametrize("option", [("recursiveFileLookup", "true"), ("pathGlobFilter", "*.parquet")])
def test_read_or_unwanted_files_in_subfolders_cause_no_warning(world: World, option: tuple[str, str]) -> None:
    world.put_ids("in", 1, 2)
    world.put_ids("in/more", 1, 2, 10)
    job = Job("reading")
    rows = job.source(uid="rows", bounded=True)(
        lambda reader: reader.schema(IDS).option(*option).parquet(world.path("in"))
    )
    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "FINISHED"
    assert not run.of("warning")


def test_partition_folders_cause_no_warning(world: World) -> None:
    world.put("in", "day=1/x", [{"id": 1, "k": 1}])
    run = world.run(reading(world))
    assert (run.status, world.released_ids()) == ("FINISHED", [1])
    assert not run.of("warning")
