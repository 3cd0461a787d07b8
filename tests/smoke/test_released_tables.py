"""One bounded job with a sink of each kind that needs a server or a library: PostgreSQL, MariaDB, Delta."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import DeltaSink, Job, PostgresSink, SqlSink
from tests.spark.harness import World
from tests.support import mariadb, postgres
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL

pytestmark = [pytest.mark.smoke, pytest.mark.spark]

CITIES = [(1, "Köln"), (2, "L'Aquila"), (3, None), (4, '"x"\t\\')]
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
RELEASED = [(number, 2 * number, city) for number, city in CITIES]


@dataclass
class Targets:
    """The places to which the job has released. A server is None if it is not installed."""

    postgres: PostgreSQL | None
    mariadb: MariaDB | None
    delta: Path


@pytest.fixture(scope="module")
def targets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    """Run the job once, with a sink for each server that is installed."""
    world = World(tmp_path_factory.mktemp("shop"))
    with ExitStack() as running, ThreadPoolExecutor(2) as pool:
        first = pool.submit(running.enter_context, PostgreSQL()) if postgres.initdb() else None
        second = pool.submit(running.enter_context, MariaDB()) if mariadb.is_installed() else None
        targets = Targets(first.result() if first else None, second.result() if second else None, world.base / "delta")
        run_job(world, targets)
        yield targets


def run_job(world: World, targets: Targets) -> None:
    for id_, city in CITIES:
        world.put("orders", f"{id_}", [{"id": id_, "city": city}], SCHEMA)
    job = Job("shop")

    @job.source(bounded=True)
    def orders(read: Any) -> Any:
        return read.schema("id LONG, city STRING").parquet(world.path("orders"))

    @job.transform(inputs=[orders])
    def doubled(rows: Any) -> Any:
        return rows.select("id", (F.col("id") * 2).alias("twice"), "city")

    job.sink("delta", doubled, DeltaSink(str(targets.delta)))
    if targets.postgres is not None:
        job.sink("postgres", doubled, PostgresSink("public.orders", url=postgres_url(targets.postgres), create=True))
    if targets.mariadb is not None:
        with closing(targets.mariadb.connect()) as connection:
            connection.cursor().execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
        job.sink("mariadb", doubled, SqlSink("orders", url=mariadb_url(targets.mariadb), create=True))
    run = world.run(job)
    assert (run.status, run.cause) == ("FINISHED", None)


def postgres_url(server: PostgreSQL) -> str:
    return f"postgresql://airflow@127.0.0.1:{server.port}/postgres"


def mariadb_url(server: MariaDB) -> str:
    return f"mysql+pymysql://airflow:{mariadb.PASSWORD}@127.0.0.1:{server.port}/shop?ssl_disabled=true"


def test_a_job_releases_its_rows_to_postgresql(targets: Targets) -> None:
    if targets.postgres is None:
        pytest.skip(postgres.NOT_INSTALLED)
    with psycopg.connect(postgres_url(targets.postgres)) as connection:
        assert connection.execute("SELECT id, twice, city FROM orders ORDER BY id").fetchall() == RELEASED


def test_a_job_releases_its_rows_to_mariadb(targets: Targets) -> None:
    if targets.mariadb is None:
        pytest.skip(mariadb.NOT_INSTALLED)
    with closing(targets.mariadb.connect(database="shop")) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, twice, city FROM orders ORDER BY id")
        assert list(cursor.fetchall()) == RELEASED


def test_a_job_releases_its_rows_to_a_delta_table(targets: Targets) -> None:
    rows = DeltaTable(str(targets.delta)).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["twice"], row["city"]) for row in rows) == RELEASED
