"""Rows a second into a table of PostgreSQL: staged and released, against Spark's JDBC writer and bare COPY.

Starts a server of its own, with fsync, and takes the JDBC driver from Maven Central, once (needs mvn). The ways take
turns in one session, so that what slows the machine slows all; the first round is warming up. Every result is counted.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
import pyarrow as pa
from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.testing.staging import stage
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb

DRIVER = "org.postgresql:postgresql:42.7.4"
TABLE = "id bigint, shop int, city text, amount numeric(12,2), price double precision, at timestamptz"
GOALS = {"jdbc, defaults": 1.7, "jdbc, tuned": 0.85, "bare COPY": 0.55}


def driver_jar() -> Path:
    folder = Path.home() / ".cache" / "airflow-provider-ckpt" / "jars"
    jar = folder / f"postgresql-{DRIVER.rpartition(':')[2]}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={DRIVER}", f"-DoutputDirectory={folder}"]
        subprocess.run(command, check=True, timeout=600, stdin=subprocess.DEVNULL)
    return jar


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=4).selectExpr(
        "id",
        "cast(id % 1000 as int) AS shop",
        "concat('city ', id % 5000) AS city",
        "cast(id % 100000 / 100 as decimal(12,2)) AS amount",
        "id * 1.5D AS price",
        "timestamp_seconds(1700000000 + id) AS at",
    )


class Ways:
    def __init__(self, spark: SparkSession, url: str, jdbc: str, count: int) -> None:
        self.url, self._jdbc, self._count = url, jdbc, count
        self._rows = rows(spark, count).cache()
        self._rows.count()
        found = pa.table(self._rows.toArrow())
        at = found.schema.get_field_index(
            "at"
        )  # as the sink writes it: with its zone that takes as long as all the rest
        self._table = found.set_column(at, "at", found["at"].cast(pa.timestamp("us")))
        self._number = 0

    def all(self) -> dict[str, Callable[[], None]]:
        return {
            "staged and released": self.released,
            "jdbc, defaults": lambda: self.jdbc({}, ""),
            "jdbc, tuned": lambda: self.jdbc({"batchsize": "10000"}, "?reWriteBatchedInserts=true"),
            "bare COPY": self.copied,
        }

    def released(self) -> None:
        sink = PostgresSink("public.target", url=self.url).bind(SinkContext(f"bench-{uuid.uuid4().hex}", "table"))
        sink.prepare()
        assert sink.release([stage(sink, self._rows, 1)], 1) == {"rows": self._count}

    def jdbc(self, options: dict[str, str], query: str) -> None:
        given = {"url": self._jdbc + query, "dbtable": "public.target", "user": "airflow", **options}
        self._rows.write.format("jdbc").options(driver="org.postgresql.Driver", **given).mode("append").save()

    def copied(self) -> None:
        """One process, Arrow to CSV: what the server takes at most of one connection."""
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY public.target FROM STDIN (FORMAT csv)") as copy:
                for batch in self._table.to_batches(10_000):
                    text = io.BytesIO()
                    csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                    copy.write(text.getbuffer())

    def timed(self, way: Callable[[], None]) -> float:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS public.target")
            connection.execute(f"CREATE TABLE public.target ({TABLE})".encode())
            connection.execute("CHECKPOINT")
            begun = time.monotonic()
            way()
            seconds = time.monotonic() - begun
            assert connection.execute("SELECT count(*) FROM public.target").fetchone() == (self._count,)
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if initdb() is None:
        sys.exit(NOT_INSTALLED)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(driver_jar()))
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with PostgreSQL(fsync="on", max_wal_size="4GB") as server:
        place = f"127.0.0.1:{server.port}/postgres"
        ways = Ways(spark, f"postgresql://airflow@{place}", f"jdbc:postgresql://{place}", args.rows)
        times: dict[str, list[float]] = {name: [] for name in ways.all()}
        for number in range(args.rounds + 1):
            for name, way in ways.all().items():
                seconds = ways.timed(way)
                if number:
                    times[name].append(seconds)
        print(f"{'':22}{'s (median)':>12}{'rows/s':>12}{'released is':>14}{'goal':>8}")
        ours = times["staged and released"]
        for name, found in times.items():
            ratio = statistics.median(theirs / mine for theirs, mine in zip(found, ours, strict=True))
            goal = f"{GOALS[name]:.2f}" if name in GOALS else ""
            median = statistics.median(found)
            print(f"{name:22}{median:12.2f}{args.rows / median:12,.0f}{ratio:13.2f}x{goal:>8}")
    spark.stop()


if __name__ == "__main__":
    main()
