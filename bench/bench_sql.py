"""Rows a second into a table of MariaDB: staged and released by SqlSink, against Spark's JDBC writer.

The bench starts a server of its own. It fetches the JDBC driver from Maven Central once (needs mvn). The ways take
turns in one session, so that a slow phase of the machine affects all of them. The first round is a warm-up. Every
result is counted.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from airflow_provider_ckpt.testing.staging import stage
from bench.table_race import race, rows, session, stopwatch
from tests.support.mariadb import NOT_INSTALLED, PASSWORD, MariaDB, is_installed

DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.4.1"
TABLE = (
    "id bigint, shop int, city varchar(40) character set utf8mb4, amount decimal(12,2), price double, "
    "at timestamp(6) NULL"
)


class Ways:
    def __init__(self, spark: SparkSession, server: MariaDB, count: int) -> None:
        self._server, self._count = server, count
        self._rows = rows(spark, count)

    def all(self) -> dict[str, Callable[[], None]]:
        return {
            "staged and released": self.released,
            "jdbc, defaults": lambda: self.jdbc({}, ""),
            "jdbc, tuned": lambda: self.jdbc({"batchsize": "10000"}, "&useBulkStmts=true"),
        }

    def released(self) -> None:
        url = f"mysql+pymysql://airflow:{PASSWORD}@127.0.0.1:{self._server.port}/bench?ssl_disabled=true"
        sink = SqlSink("target", url=url).bind(SinkContext(f"bench-{uuid.uuid4().hex}", "table"))
        sink.prepare()
        assert sink.release([stage(sink, self._rows, 1)], 1) == {"rows": self._count}

    def jdbc(self, options: dict[str, str], query: str) -> None:
        place = f"jdbc:mariadb://127.0.0.1:{self._server.port}/bench?sessionVariables=sql_mode=ANSI_QUOTES{query}"
        given = {"url": place, "dbtable": "target", "user": "airflow", "password": PASSWORD, **options}
        self._rows.write.format("jdbc").options(driver="org.mariadb.jdbc.Driver", **given).mode("append").save()

    def timed(self, way: Callable[[], None]) -> float:
        with self._server.connect(database="bench") as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS target")
            cursor.execute(f"CREATE TABLE target ({TABLE})")
            seconds = stopwatch(way)
            cursor.execute("SELECT count(*) FROM target")
            assert cursor.fetchone() == (self._count,)
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if not is_installed():
        sys.exit(NOT_INSTALLED)
    spark = session(DRIVER)
    with MariaDB() as server:
        with server.connect() as connection:
            connection.cursor().execute("CREATE DATABASE bench")
        ways = Ways(spark, server, args.rows)
        race(ways.all(), ways.timed, args.rounds, args.rows, {})
    spark.stop()


if __name__ == "__main__":
    main()
