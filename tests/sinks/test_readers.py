"""Readers that list a folder, while a job writes and after its driver was killed: released rows only, and no error."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.testing.staging import stage
from tests.sinks import readers
from tests.support.books import books
from tests.support.processes import ROOT, Process
from tests.support.waiting import wait_until

FOLDERS = {"parquet": "parquet", "csv": "csv", "json": "json", "orc": "orc", "parted": "parquet"}
DAYS = ("2026-01-01", "2026-01-02")


def check(folder: Path, form: str, ids: set[int]) -> None:
    """Check that each reader of the format finds these ids, each once."""
    parted = any("=" in path.name for path in folder.iterdir())
    for reader in (*readers.READERS, *(readers.PARTED if parted else readers.FLAT)):
        if form in reader.formats:
            read_ids = reader.formats[form](folder)
            assert sorted(read_ids) == sorted(ids), f"{reader.name} {reader.call} of {folder}"


# ---- a whole job


def put(base: Path, name: str, ids: range) -> set[int]:
    rows = [json.dumps({"id": number, "day": DAYS[number % 2]}) for number in ids]
    (base / "in").mkdir(exist_ok=True)
    (base / f".{name}").write_text("\n".join(rows))
    os.replace(base / f".{name}", base / "in" / name)
    return set(ids)


def released(base: Path, folder: str) -> int:
    return sum(manifest.rows for manifest in read_manifests(str(base / folder)))


def staged(base: Path, folder: str) -> list[Path]:
    return [path for path in books(base / folder).glob("*/*/staging/**/*.*") if path.name[0] not in "_."]


def driver(base: Path) -> Process:
    job = f"{Path(__file__).parent / 'readers_job.py'}:job"
    command = [str(Path(sys.executable).parent / "ckpt"), "run", job, "--root", str(base / "root"), "--take-over"]
    command += ["--checkpoint-interval", "1s", "--conf", "spark.ui.enabled=false"]
    return Process(command, base / "log", env={"READERS_BASE": str(base)})


def test_readers_see_only_released_rows_of_a_killed_and_resumed_job(spark: SparkSession, tmp_path: Path) -> None:
    first = put(tmp_path, "1.json", range(6))
    with driver(tmp_path):
        wait_until(lambda: all(released(tmp_path, folder) == 6 for folder in FOLDERS), "the first release", seconds=240)
        (tmp_path / "hold").touch()
        both = first | put(tmp_path, "2.json", range(6, 12))
        wait_until(lambda: all(staged(tmp_path, folder) for folder in FOLDERS), "staged rows")
        for folder, form in FOLDERS.items():
            check(tmp_path / folder, form, first)
    assert all(staged(tmp_path, folder) for folder in FOLDERS)
    for folder, form in FOLDERS.items():
        check(tmp_path / folder, form, first)
    (tmp_path / "hold").unlink()
    with driver(tmp_path):
        wait_until(
            lambda: all(released(tmp_path, folder) == 12 for folder in FOLDERS), "the second release", seconds=240
        )
    for folder, form in FOLDERS.items():
        check(tmp_path / folder, form, both)


# ---- while Spark writes


def test_readers_see_only_released_rows_while_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    folder, writing, go = tmp_path / "table", tmp_path / "writing", tmp_path / "go"
    sink = FileSink(str(folder)).bind(SinkContext("orders", "lake"))
    sink.prepare()
    rows = spark.createDataFrame([(number, DAYS[number % 2]) for number in range(4)], readers.SCHEMA)
    sink.release([stage(sink, rows, 1)], 1)

    def slow(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import time

        for batch in batches:
            yield pd.concat([batch] * 50_000)  # fills the buffer between Python and the task
            writing.touch()
            while not go.exists():
                time.sleep(0.01)

    handles: list[Any] = []
    thread = threading.Thread(
        target=lambda: handles.append(stage(sink, rows.coalesce(1).mapInPandas(slow, readers.SCHEMA), 2))
    )
    thread.start()
    try:
        wait_until(lambda: writing.exists() and any(books(folder).rglob("*.parquet")), "a file that Spark writes")
        check(folder, "parquet", {0, 1, 2, 3})
    finally:
        go.touch()
        thread.join()
    check(folder, "parquet", {0, 1, 2, 3})
    assert handles[0]["rows"] == 200_000


# ---- the page


def test_the_table_of_readers_in_the_docs_matches_the_tests() -> None:
    page = (ROOT / "docs" / "sinks.md").read_text("utf-8")
    assert "\n".join(readers.table()) in page


def test_some_readers_hide_a_partition_column_with_an_underscore(tmp_path: Path) -> None:
    (tmp_path / "_day=1").mkdir()
    pd.DataFrame({"id": [1]}).to_parquet(tmp_path / "_day=1" / "a.parquet")
    beside_spark = (reader for reader in readers.READERS if reader.name != "Spark")
    ids_by_reader = {reader.name: reader.formats["parquet"](tmp_path) for reader in beside_spark}
    assert {name for name, ids in ids_by_reader.items() if ids == [1]} == {"DuckDB", "Polars"}
