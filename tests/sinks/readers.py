"""Programs that read a folder of files without knowing its manifests. Each returns the ids that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql import SparkSession

SCHEMA = "id LONG, day STRING"
Ids = list[int]
Read = Callable[[Path], Ids]


@dataclass(frozen=True)
class Reader:
    """``call``: as the page about sinks spells it. ``formats``: format of the folder -> how it is read."""

    name: str
    call: str
    formats: dict[str, Read]

    @property
    def line(self) -> str:
        """The reader's line in the page's table."""
        formats = (("parquet", "Parquet"), ("csv", "CSV"), ("json", "JSON"), ("orc", "ORC"))
        cells = ["right" if key in self.formats else "" for key, _ in formats]
        return f"| {self.name} | {self.call} | {' | '.join(cells)} |"


def _spark(form: str) -> Read:
    def read(folder: Path) -> Ids:
        spark = SparkSession.builder.getOrCreate()
        frame = spark.read.schema(SCHEMA).option("header", True).format(form).load(str(folder))
        return [row.id for row in frame.collect()]

    return read


def _arrow(form: str) -> Read:
    def read(folder: Path) -> Ids:
        schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        table = dataset.dataset(folder, format=form, partitioning="hive", schema=schema).to_table()
        ids: Ids = table.column("id").to_pylist()
        return ids

    return read


def _read_table(folder: Path) -> Ids:
    table = parquet.read_table(folder)
    return table.column("id").to_pylist() if table.num_rows else []


def _pandas(folder: Path) -> Ids:
    frame = pd.read_parquet(folder)
    return [int(row_id) for row_id in frame["id"]] if len(frame) else []


def _duck(function: str, pattern: str, options: str = "") -> Read:
    def read(folder: Path) -> Ids:
        with duckdb.connect() as connection:
            rows = connection.execute(f"SELECT id FROM {function}('{folder}{pattern}'{options})").fetchall()
        return [int(row[0]) for row in rows]

    return read


def _polars(scan: Callable[..., pl.LazyFrame], pattern: str = "") -> Read:
    def read(folder: Path) -> Ids:
        ids: Ids = scan(f"{folder}{pattern}").select("id").collect()["id"].to_list()
        return ids

    return read


def _trino(folder: Path) -> Ids:
    """Apply the rule of Trino and Hive to the names, and read what is left.

    A file is read if no name below the table begins with ``_`` or ``.``. No such program runs here.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    shown = [path for path in files if not any(part[0] in "_." for part in path.relative_to(folder).parts)]
    return [
        int(row_id) for path in sorted(shown) for row_id in parquet.ParquetFile(path).read(["id"])["id"].to_pylist()
    ]


READERS = (
    Reader("Spark", "`spark.read…load(folder)`", {form: _spark(form) for form in ("parquet", "csv", "json", "orc")}),
    Reader("pyarrow", "`dataset.dataset(folder)`", {form: _arrow(form) for form in ("parquet", "csv", "json", "orc")}),
    Reader("pyarrow", "`parquet.read_table(folder)`", {"parquet": _read_table}),
    Reader("pandas", "`read_parquet(folder)`", {"parquet": _pandas}),
    Reader(
        "DuckDB",
        "`'folder/**'`",
        {
            "parquet": _duck("read_parquet", "/**"),
            "csv": _duck("read_csv", "/**"),
            "json": _duck("read_json", "/**"),
        },
    ),
    Reader(
        "DuckDB",
        "`'folder/**/*.parquet'`, `.csv`, `.json`",
        {
            "parquet": _duck("read_parquet", "/**/*.parquet"),
            "csv": _duck("read_csv", "/**/*.csv"),
            "json": _duck("read_json", "/**/*.json"),
        },
    ),
    Reader(
        "DuckDB",
        "`'folder/**/*.parquet', hive_partitioning=true`",
        {"parquet": _duck("read_parquet", "/**/*.parquet", ", hive_partitioning=true")},
    ),
    Reader(
        "Polars",
        "`scan_parquet(folder)`, `scan_csv`, `scan_ndjson`",
        {"parquet": _polars(pl.scan_parquet), "csv": _polars(pl.scan_csv), "json": _polars(pl.scan_ndjson)},
    ),
    Reader(
        "Polars",
        "`scan_parquet('folder/**/*.parquet')`, `.csv`, `.json`",
        {
            "parquet": _polars(pl.scan_parquet, "/**/*.parquet"),
            "csv": _polars(pl.scan_csv, "/**/*.csv"),
            "json": _polars(pl.scan_ndjson, "/**/*.json"),
        },
    ),
    Reader("Trino, Hive", "their rule for hidden names, applied by the test", {"parquet": _trino}),
)
FLAT = (
    Reader(
        "DuckDB",
        "`'folder/*'`",
        {"parquet": _duck("read_parquet", "/*"), "csv": _duck("read_csv", "/*"), "json": _duck("read_json", "/*")},
    ),
    Reader("DuckDB", "`'folder'`", {"parquet": _duck("read_parquet", "")}),
)
"""Readers of a folder without partitions."""
PARTED = (Reader("DuckDB", "`'folder/*/*.parquet'`", {"parquet": _duck("read_parquet", "/*/*.parquet")}),)
"""Readers of a folder with partitions of one column."""


def table() -> list[str]:
    """Return the lines of the page's table."""
    return [reader.line for reader in (*READERS, *FLAT, *PARTED)]
