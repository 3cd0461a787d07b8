"""Rows a second into a table of PostgreSQL: staged and released, against Spark's JDBC writer and bare COPY.

The bench starts a server of its own, with fsync. It fetches the JDBC driver from Maven Central once (needs mvn). The
ways take turns in one session, so that a slow phase of the machine affects all of them. The first round is a warm-up.
Every result is counted.
"""

from __future__ import annotations

import argparse
import io
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
import pyarrow as pa
from pyarrow import csv
from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.testing.staging import stage
from bench.table_race import race, rows, session, stopwatch
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb

DRIVER = "org.postgresql:postgresql:42.7.4"
TABLE = "id bigint, shop int, city text, amount numeric(12,2), price double precision, at timestamptz"
GOALS = {"jdbc, defaults": 1.7, "jdbc, tuned": 0.85, "bare COPY": 0.55}


class Ways:
    def __init__(self, spark: SparkSession, url: str, jdbc: str, count: int) -> None:
        self.url, self._jdbc, self._count = url, jdbc, count
        self._rows = rows(spark, count)
        found = pa.table(self._rows.toArrow())
        at = found.schema.get_field_index(
            "at"
        )  # in the sink's form, because a time with its zone takes as long as all other columns
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
        """Copy the rows from one process, Arrow to CSV, as the upper limit of one connection."""
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
            seconds = stopwatch(way)
            assert connection.execute("SELECT count(*) FROM public.target").fetchone() == (self._count,)
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if initdb() is None:
        sys.exit(NOT_INSTALLED)
    spark = session(DRIVER)
    with PostgreSQL(fsync="on", max_wal_size="4GB") as server:
        place = f"127.0.0.1:{server.port}/postgres"
        ways = Ways(spark, f"postgresql://airflow@{place}", f"jdbc:postgresql://{place}", args.rows)
        race(ways.all(), ways.timed, args.rounds, args.rows, GOALS)
    spark.stop()


if __name__ == "__main__":
    main()
