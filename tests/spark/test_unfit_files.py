"""Files that Spark would misread or not read at all. Each of them is named."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.errors import EmptyFileError, UnreadableFileError
from airflow_provider_ckpt.spark.task.errors import UnfitInputError
from airflow_provider_ckpt.spark.task.streaming.running_query import query_failed
from tests.spark.harness import Line, World, write_rows
from tests.spark.jobs import IDS

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
Read = Callable[[Any, str], DataFrame]


def reading(world: World, form: str, **source: Any) -> Job:
    """Return a job that reads one file of ``in`` at a time."""
    job = Job("reading")
    given: dict[str, Any] = {"bounded": True, "max_files_per_trigger": 1, **source}
    rows = job.source(uid="rows", **given)(lambda reader: getattr(reader.schema(IDS), form)(world.path("in")))
    job.sink("out", rows, FileSink(world.path("out")))
    return job


def put_late(world: World, act: Callable[[], None]) -> Callable[[Line], None]:
    """Return a listener that calls ``act`` when the first rows are released."""
    done: list[None] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() and not done:
            done.append(None)
            act()

    return on_line


@MODES
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_an_empty_file_is_named_before_anything_is_written(world: World, form: str, mode: str) -> None:
    path = Path(world.path("in")) / f"2.{form}"
    path.touch()
    with pytest.raises(EmptyFileError, match=rf"source 'rows' \(.*/in/2\.{form}: it is empty") as raised:
        world.run(reading(world, form), mode=mode)
    assert raised.value.retryable
    assert world.everything_under_root() == []


def test_an_empty_live_file_is_named_and_read_once_it_is_whole(world: World) -> None:
    world.put_ids("in", 1, 3)
    path = Path(world.path("in")) / "new.parquet"
    run = world.run(reading(world, "parquet", bounded=False), put_late(world, path.touch))
    assert run.status == "RESTARTING"
    assert "the query of vertex 'rows' cannot read file:" in str(run.cause)
    assert "/in/new.parquet: it is empty, and a Parquet file never is." in str(run.cause)
    path.unlink()
    write_rows(path, [{"id": 7, "k": 1}])
    run = world.run(reading(world, "parquet", bounded=False), world.drain_at(4))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 2, 7]


def test_an_empty_text_file_counts_as_a_file_without_rows(world: World) -> None:
    (Path(world.path("in")) / "1.json").write_text('{"id":1,"k":1}\n')
    (Path(world.path("in")) / "2.json").touch()
    assert world.run(reading(world, "json")).status == "FINISHED"
    assert world.released_ids() == [1]


@MODES
@pytest.mark.parametrize("name", ["a.zip", "a.json.xz", "a.7z", "a.RAR", "a.tar.gz", "a.tgz"])
def test_an_archive_is_named_before_anything_is_written(world: World, name: str, mode: str) -> None:
    (Path(world.path("in")) / "1.json").write_text('{"id":1,"k":1}\n')
    (Path(world.path("in")) / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(UnreadableFileError, match=rf"/in/{name}: Spark does not know \."):
        world.run(reading(world, "json"), mode=mode)
    assert world.everything_under_root() == []


def test_an_archive_in_a_live_source_is_named(world: World) -> None:
    (Path(world.path("in")) / "1.csv").write_text("1,1\n")

    def act() -> None:
        with zipfile.ZipFile(world.base / "a.zip", "w") as archive:
            archive.writestr("a.csv", "2,2\n")
        (world.base / "a.zip").rename(Path(world.path("in")) / "a.zip")

    run = world.run(reading(world, "csv", bounded=False), put_late(world, act))
    assert run.status == "FAILED"
    assert "/in/a.zip: Spark does not know .zip, and would read" in str(run.cause)
    assert world.released_ids() == [1]


def test_an_archive_of_a_split_is_named(world: World) -> None:
    path = Path(world.path("in")) / "a.zip"
    path.write_bytes(b"PK\x03\x04")
    job = Job("split")
    rows = job.source(uid="rows", bounded=True, splits=[str(path)])(lambda read, split: read.schema(IDS).json(split))
    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "FAILED"
    assert "the query of vertex 'rows' cannot read file:" in str(run.cause)


@MODES
def test_a_truncated_parquet_file_is_named_and_read_once_it_is_whole(world: World, mode: str) -> None:
    world.put_ids("in", 1, 3)
    path = Path(world.path("in")) / "2.parquet"
    write_rows(path, [{"id": 7, "k": 1}])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run = world.run(reading(world, "parquet"), mode=mode)
    assert run.status == "RESTARTING"
    assert "/in/2.parquet: " in str(run.cause)
    path.write_bytes(whole)
    assert world.run(reading(world, "parquet"), mode=mode).status == "FINISHED"
    assert world.released_ids() == [0, 1, 2, 7]


@MODES
def test_unsigned_numbers_are_named_by_file_and_column(world: World, mode: str) -> None:
    path = Path(world.path("in")) / "1.parquet"
    parquet.write_table(pa.table({"id": pa.array([2**63 + 1], pa.uint64()), "k": pa.array([1])}), path)
    run = world.run(reading(world, "parquet"), mode=mode)
    assert run.status == "FAILED"
    assert "/in/1.parquet: column id is " in str(run.cause)


@MODES
@pytest.mark.parametrize("form", ["orc"])
def test_text_is_not_read_as_a_number(spark: SparkSession, world: World, form: str, mode: str) -> None:
    frame = spark.createDataFrame([("x", 1)], "id string, k long")
    frame.coalesce(1).write.mode("append").format(form).save(world.path("in"))
    run = world.run(reading(world, form), mode=mode)
    assert run.status == "FAILED"
    assert f".{form}: column id is STRING" in str(run.cause)


# ---- values that cannot be computed


@MODES
def test_a_failed_cast_names_the_file_and_the_types_and_no_value(world: World, mode: str) -> None:
    (Path(world.path("in")) / "1.csv").write_text("1,2\n")
    (Path(world.path("in")) / "2.csv").write_text("2,hunter2\n")
    os.utime(Path(world.path("in")) / "1.csv", (world.began, world.began))
    job = Job("casting")
    rows = job.source(uid="rows", bounded=True, max_files_per_trigger=1)(
        lambda reader: reader.schema("id LONG, k STRING").csv(world.path("in"))
    )
    cast = job.transform(inputs=[rows], uid="cast")(lambda rows: rows.withColumn("k", rows.k.cast("int")))
    job.sink("out", cast, FileSink(world.path("out")))
    run = world.run(job, mode=mode)
    assert run.status == "FAILED"
    assert "CAST_INVALID_INPUT: a value of type STRING cannot be cast to INT" in str(run.cause)
    assert ("in the batch that reads /" in str(run.cause)) is (mode == "streaming")
    assert ("/in/2.csv: CAST" in str(run.cause)) is (mode == "streaming")
    assert "hunter2" not in f"{run.cause} {world.state().cause}"


CAST = (
    '[CAST_INVALID_INPUT] The value \'hunter2\' of the type "STRING" cannot be cast to "DECIMAL(10,2)" because it is '
    'malformed. SQLSTATE: 22018\n== DataFrame ==\n"cast" was called from\n/dags/orders.py:12\n'
)


def test_an_arithmetic_error_ends_the_job() -> None:
    error = query_failed("daily", RuntimeError(CAST), ["lake/a.csv", "lake/b.csv"])
    assert isinstance(error, UnfitInputError)
    assert not error.retryable
    assert (
        "'daily' failed in the batch that reads /lake/a.csv and 1 more file: CAST_INVALID_INPUT: a value of type "
        "STRING cannot be cast to DECIMAL(10,2), at /dags/orders.py:12. Nothing"
    ) in str(error)
    other = query_failed("daily", RuntimeError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))
    assert "'daily' failed: DIVIDE_BY_ZERO. Nothing" in str(other)
