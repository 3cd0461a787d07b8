"""Time and memory of a release of changed rows, by the number of rows.

    python bench/bench_releases.py [--most 1000000] [--only iceberg,delta] [--seconds 600]

Each target gets a release of rows, then a release that changes all of them, for 1,000 rows, 10,000 and so on. The
second release is measured: seconds, seconds for a million rows, and the peak memory of this process less its memory
before. If time is proportional to rows, the seconds for a million rows are constant once fixed costs are small. After a
release that takes longer than --seconds, its target gets no larger one.

PostgreSQL and MariaDB are started if they are installed. Their rows do not pass through this process.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psycopg
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import BoundSink, DeltaSink, FileSink, IcebergSink, SinkContext
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.testing import stage
from bench import data
from tests.support.mariadb import PASSWORD, MariaDB, is_installed
from tests.support.postgres import PostgreSQL, initdb

TWO = ["id", "city"]
"""The columns of a key of two columns."""
MADE = "id bigint NOT NULL, city varchar(40) NOT NULL, amount double precision, PRIMARY KEY (id, city)"
Target = Callable[[], BoundSink]


def context() -> SinkContext:
    return SinkContext(f"bench-{uuid.uuid4().hex[:8]}", "out")


def lakes(folder: Path) -> Iterator[tuple[str, Target]]:
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/wh"}
    load_catalog(None, **catalog).create_namespace("bench")

    def iceberg(key: list[str], kind: str = "upsert") -> BoundSink:
        table = f"bench.t{uuid.uuid4().hex}"
        return IcebergSink(table, catalog=catalog, mode=kind, key=key).bind(context())  # type: ignore[arg-type]

    def delta(key: list[str]) -> BoundSink:
        return DeltaSink(str(folder / uuid.uuid4().hex), mode="upsert", key=key).bind(context())

    yield "iceberg, append", lambda: iceberg([], "append")
    yield "iceberg, 1 key column", lambda: iceberg(["id"])
    yield "iceberg, 2 key columns", lambda: iceberg(TWO)
    yield "delta, 1 key column", lambda: delta(["id"])
    yield "delta, 2 key columns", lambda: delta(TWO)
    yield "files", lambda: FileSink(str(folder / uuid.uuid4().hex)).bind(context())


def databases(stack: ExitStack) -> Iterator[tuple[str, Target]]:
    if initdb() is not None:
        server = stack.enter_context(PostgreSQL())
        url = f"postgresql://airflow@127.0.0.1:{server.port}/postgres"

        def postgres() -> BoundSink:
            name = f"t{uuid.uuid4().hex}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE TABLE public.{name} ({MADE})".encode())
            return PostgresSink(f"public.{name}", url=url, mode="upsert", key=TWO).bind(context())

        yield "postgres, 2 key columns", postgres
    if is_installed():
        maria = stack.enter_context(MariaDB())
        with maria.connect() as connection:
            connection.cursor().execute("CREATE DATABASE bench")

        def mariadb() -> BoundSink:
            name = f"t{uuid.uuid4().hex}"
            with maria.connect(database="bench") as connection:
                connection.cursor().execute(f"CREATE TABLE {name} ({MADE}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
            url = f"mysql+pymysql://airflow:{PASSWORD}@127.0.0.1:{maria.port}/bench?ssl_disabled=true"
            return SqlSink(name, url=url, mode="upsert", key=TWO).bind(context())

        yield "mariadb, 2 key columns", mariadb


def rows_of(spark: SparkSession, rows: int, amount: int) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id * 7919 % 1000003 as id", "concat('city ', id % 1000) as city", f"cast({amount} as double) as amount"
    )


def peak(*, reset: bool = False) -> int:
    """Return the peak memory of this process in MB, since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


def measured(spark: SparkSession, sink: BoundSink, rows: int) -> tuple[float, int]:
    sink.prepare()
    sink.release([stage(sink, rows_of(spark, rows, 1), 1)], 1)
    handle = stage(sink, rows_of(spark, rows, 2), 2)
    before, started = peak(reset=True), time.perf_counter()
    assert sink.release([handle], 2)["rows"] == rows
    return time.perf_counter() - started, peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    folder = data.scratch() / "releases"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    conf = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    spark = build_session("bench-releases", conf)
    spark.sparkContext.setLogLevel("ERROR")
    wanted = tuple(one for one in arguments.only.split(",") if one)
    with ExitStack() as stack:
        for name, target in [*lakes(folder), *databases(stack)]:
            rows = 1_000
            while rows <= arguments.most and (not wanted or name.startswith(wanted)):
                seconds, memory = measured(spark, target(), rows)
                each = seconds / rows * 1e6
                print(f"{name:24} {rows:9,} rows {seconds:8.2f} s {each:8.1f} s a million {memory:6} MB", flush=True)
                rows = rows * 10 if seconds <= arguments.seconds else arguments.most + 1
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
