"""Speed of the sinks of tables against their libraries alone, and cost of a release as a table grows.

    python bench/bench_lakes.py [--rows 2000000] [--rounds 5] [--commits 300]

The sink stages and releases rows (Spark writes, the library commits). It is compared with the library's own append of
the same rows (Spark passes them as Arrow), and with Spark's plain Parquet files outside of any table. Sides alternate.

Target: ours at 0.9 of the rows a second of the library's append or better.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import BoundSink, DeltaSink, IcebergSink, SinkContext
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.testing import stage
from bench import data

CONTEXT = SinkContext("bench", "lake")
COLUMNS = (
    "id",
    "id % 100000 as customer",
    "cast(id as double) / 7 as amount",
    "concat('city ', id % 1000) as city",
    "timestamp_micros(id * 1000000) as at",
)
Side = Callable[[DataFrame], Any]


class Work:
    """The two sides. ``bound``: the sink of a table; ``libraries``: the library's own append to another table."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/wh"}
        load_catalog(None, **self.catalog).create_namespace("bench")

    def bound(self, kind: str, name: str) -> BoundSink:
        if kind == "delta":
            return DeltaSink(str(self.folder / name)).bind(CONTEXT)
        return IcebergSink(f"bench.{name}", catalog=self.catalog).bind(CONTEXT)

    def alone(self, kind: str, name: str, frame: DataFrame) -> None:
        rows = frame.toArrow()
        if kind == "delta":
            write_deltalake(self.folder / name, rows, mode="append")
            return
        catalog = load_catalog(None, **self.catalog)
        catalog.create_table_if_not_exists(f"bench.{name}", rows.schema).append(rows)


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr(*COLUMNS)


def throughput(spark: SparkSession, kind: str, rows: int, rounds: int) -> None:
    work = Work(data.scratch() / f"lakes-{kind}")
    sink, numbers = work.bound(kind, "ours"), iter(range(1, 10_000))
    frame = rows_of(spark, rows)

    def ours(given: DataFrame) -> None:
        number = next(numbers)
        released = sink.release([stage(sink, given, number)], number)
        assert released["rows"] == rows

    def parquet(given: DataFrame) -> None:
        given.write.mode("append").parquet(str(work.folder / "parquet"))

    sides: dict[str, Side] = {"ours": ours, "alone": lambda given: work.alone(kind, "alone", given), "parquet": parquet}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in list(sides) if number % 2 else list(sides)[::-1]:
            started = time.perf_counter()
            sides[name](frame)
            if number:  # the first round warms up
                taken[name].append(time.perf_counter() - started)
    for name, seconds in taken.items():
        print(f"{kind:8} {name:8} {rows / statistics.median(seconds) / 1e3:7.0f} k rows/s ({_shown(seconds)} s)")
    for plain in ("alone", "parquet"):
        ratios = [b / a for a, b in zip(taken["ours"], taken[plain], strict=True)]
        print(f"{kind:8} ours / {plain}: {statistics.median(ratios):.2f} of the rows a second ({_shown(ratios)})")


def _shown(numbers: list[float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers)


def releases(spark: SparkSession, kind: str, commits: int) -> None:
    """Print the time of one release, by its rows and by the number of commits before it."""
    work = Work(data.scratch() / f"lakes-{kind}-releases")
    for rows in (1_000, 100_000, 1_000_000):
        sink = work.bound(kind, f"rows{rows}")
        handles = [stage(sink, rows_of(spark, rows), number) for number in range(1, 6)]
        seconds = [_released(sink, handle, number) for number, handle in enumerate(handles, start=1)]
        print(f"{kind:8} release of {rows:9,} rows: {statistics.median(seconds) * 1e3:6.0f} ms")
    sink = work.bound(kind, "many")
    numbers = range(1, commits + 1)
    seconds = [_released(sink, stage(sink, rows_of(spark, 10), number), number) for number in numbers]
    for last in sorted({10, 50, 100, commits}):
        if last <= commits:
            print(
                f"{kind:8} release after {last:4} others: {statistics.median(seconds[last - 10 : last]) * 1e3:6.0f} ms"
            )


def _released(sink: BoundSink, handle: dict[str, Any], number: int) -> float:
    started = time.perf_counter()
    sink.release([handle], number)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commits", type=int, default=300)
    arguments = parser.parse_args()
    conf = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    spark = build_session("bench-lakes", {**conf, "spark.driver.maxResultSize": "0"})
    spark.sparkContext.setLogLevel("ERROR")
    for kind in ("delta", "iceberg"):
        throughput(spark, kind, arguments.rows, arguments.rounds)
        releases(spark, kind, arguments.commits)
    spark.stop()


if __name__ == "__main__":
    main()
