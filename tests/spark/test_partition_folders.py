"""Columns that come from folders named ``column=value``: their types do not depend on the current folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.errors import UnreadableFileError
from airflow_provider_ckpt.spark.query.sources.partition_folders import unfit_folders
from tests.spark.harness import World

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])


def put(world: World, folder: str, number: int) -> None:
    target = Path(world.path(f"in/{folder}")) / f"{number}.json"
    hidden = target.with_name(f".{target.name}")
    hidden.write_text(json.dumps({"id": number}) + "\n")
    hidden.rename(target)


def zones(world: World, schema: str = "id long", *, bounded: bool = False, converts: bool = False) -> Job:
    """Return a job that copies rows with the column "zone" of their folders."""
    job = Job("zones")

    @job.source(bounded=bounded)
    def rows(read: Any) -> DataFrame:
        frame: DataFrame = read.schema(schema).json(world.path("in"))
        return frame.withColumn("zone", F.expr("try_cast(zone AS INT)")) if converts else frame

    job.sink("out", rows, FileSink(world.path("out")))
    return job


def released(world: World) -> list[tuple[int, Any]]:
    return sorted((row["id"], row["zone"]) for row in world.released())


def test_a_new_folder_changes_no_column_type(world: World) -> None:
    put(world, "zone=1", 1)
    late = ["zone=1e3"]

    def add_then_stop(line: dict[str, Any]) -> None:
        if world.released_count() >= 1 and late:
            put(world, late.pop(), 2)
        stop(line)

    stop = world.ask("stop", lambda: world.released_count() >= 2)
    assert world.run(zones(world), add_then_stop).status == "STOPPED"
    put(world, "zone=3000000000", 3)
    put(world, "zone=N4", 4)
    put(world, "zone=007", 5)
    run = world.run(zones(world), world.drain_at(5))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert released(world) == [(1, "1"), (2, "1e3"), (3, "3000000000"), (4, "N4"), (5, "007")]


@MODES
def test_folder_values_are_text_or_have_the_type_of_the_schema(world: World, mode: str) -> None:
    put(world, "zone=01", 1)
    put(world, "zone=2", 2)
    assert world.run(zones(world, bounded=True), mode=mode).status == "FINISHED"
    assert released(world) == [(1, "01"), (2, "2")]
    world.job_id = "other"
    typed = Job("typed")
    typed.source(uid="rows", bounded=True)(lambda read: read.schema("id long, zone int").json(world.path("in")))
    typed.sink("out", "rows", FileSink(world.path("typed")))
    assert world.run(typed, mode=mode).status == "FINISHED"
    assert sorted((row["id"], row["zone"]) for row in world.released("typed")) == [(1, 1), (2, 2)]


@MODES
def test_an_unfit_folder_value_is_refused_before_anything_is_written(world: World, mode: str) -> None:
    put(world, "zone=1", 1)
    put(world, "zone=N4", 2)
    job = zones(world, "id long, zone int", bounded=True)
    with pytest.raises(UnreadableFileError, match=r"source 'rows' \(.*\) cannot read the folder zone=N4: .* as INT"):
        world.run(job, mode=mode)
    assert world.everything_under_root() == []


def test_an_unfit_folder_value_ends_a_job_and_can_be_converted(world: World) -> None:
    put(world, "zone=1", 1)
    late = ["zone=N4"]

    def add(line: dict[str, Any]) -> None:
        if world.released_count() >= 1 and late:
            put(world, late.pop(), 2)

    run = world.run(zones(world, "id long, zone int"), add)
    assert run.status == "FAILED"
    assert "the query of vertex 'rows' cannot read the folder zone=N4" in str(run.cause)
    assert released(world) == [(1, 1)]
    mended = zones(world, "id long, zone string", converts=True)
    run = world.run(mended, world.drain_at(2), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert released(world) == [(1, 1), (2, None)]


def test_a_column_added_by_a_folder_ends_the_job_and_can_be_left_out(world: World) -> None:
    world.path("in")
    job = Job("plain")

    @job.source
    def rows(read: Any) -> DataFrame:
        return read.schema("id long").options(**options).json(world.path("in"))  # type: ignore[no-any-return]

    options: dict[str, Any] = {}
    job.sink("out", rows, FileSink(world.path("out")))
    late = ["zone=1"]

    def add(line: dict[str, Any]) -> None:
        if line["kind"] == "running" and late:
            put(world, late.pop(), 1)

    run = world.run(job, add)
    assert run.status == "FAILED"
    assert "the query of vertex 'rows' began without the column zone" in str(run.cause)
    options["recursiveFileLookup"] = True
    run = world.run(job, world.drain_at(1), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1]


CONFLICT = """[STREAM_FAILED] Query [id = 5e1] terminated with exception: [CONFLICTING_PARTITION_COLUMN_NAMES] \
Conflicting partition column names detected:

\tPartition column name list #0: region
\tPartition column name list #1: zone

For partitioned table directories, data files should only live in leaf directories.
Please check the following directories for unexpected files or inconsistent partition column names:

\ts3a://key:hunter2@lake/in/region=3
\tfile:/lake/in/zone=1 SQLSTATE: KD009 SQLSTATE: XXKST
=== Streaming Query ===
"""


def test_folders_with_different_columns_are_named() -> None:
    error = unfit_folders("the query of vertex 'rows'", CONFLICT)
    assert isinstance(error, UnreadableFileError)
    assert not error.retryable
    assert "lake/in/region=3, file:/lake/in/zone=1. Nothing" in str(error)
    assert "hunter2" not in f"{error} {error.data}"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("assertion failed: Invalid batch: id#18L != id#20L,zone#21 SQLSTATE: XXKST", "zone"),
        ("assertion failed: Invalid batch: a#1,b#2 != a#3,b#4,day#5,zone#6L", "day, zone"),
    ],
)
def test_columns_added_by_a_new_folder_are_named(text: str, columns: str) -> None:
    error = unfit_folders("the query of vertex 'rows'", text)
    assert isinstance(error, UnreadableFileError)
    assert error.data["columns"] == columns


def test_other_failures_are_not_attributed_to_folders() -> None:
    for text in ("assertion failed: Invalid batch: id#1,k#2 != id#3", "Disk is full", ""):
        assert unfit_folders("the query of vertex 'rows'", text) is None


@MODES
@pytest.mark.parametrize(
    ("kind", "fits", "value", "named"),
    [
        ("TINYINT", "-128", "300", "TINYINT"),
        ("SMALLINT", "32767", "70000", "SMALLINT"),
        ("DECIMAL(10,2)", "5.00", "5", "DECIMAL(10,2) (whose folders must have 2 digits after the point)"),
        ("DECIMAL(5,2)", "123.45", "99999999.99", "DECIMAL(5,2)"),
    ],
)
def test_a_folder_value_that_spark_would_misread_is_refused(
    world: World, mode: str, kind: str, fits: str, value: str, named: str
) -> None:
    """Spark reads zone=300 as the TINYINT 44, and of Parquet files zone=5 as the DECIMAL(10,2) 0.05."""
    put(world, f"zone={fits}", 1)
    job = zones(world, f"id long, zone {kind}", bounded=True)
    assert world.run(job, mode=mode).status == "FINISHED"
    assert [(number, str(zone)) for number, zone in released(world)] == [(1, fits)]
    other = World(Path(world.path("other")))
    put(other, f"zone={value}", 1)
    run = other.run(zones(other, f"id long, zone {kind}", bounded=True), mode=mode)
    assert run.status == "FAILED"
    message = f"cannot read the folder zone={value}: the schema of the source reads column zone as {named}"
    assert message in str(run.cause)
