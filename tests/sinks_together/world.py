"""Servers, targets and drivers of a job that releases to all of them, with reads of the targets and of leftovers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import REQUESTS
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.storage.opening import open_storage
from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.topics import Topics
from tests.sinks_together.steps import HOST, SINKS, pause_environ
from tests.spark.harness import World as Files
from tests.support.mariadb import PASSWORD, MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.processes import Process, stands_still
from tests.support.waiting import wait_until

JOB = Path(__file__).with_name("job.py")
SECONDS = 240.0


class World:
    """Context that ends all drivers it has started. ``base``: an empty folder."""

    def __init__(self, base: Path, server: PostgreSQL, maria: MariaDB, broker: Broker) -> None:
        self.base, self.server, self.maria, self.broker = base, server, maria, broker
        self.topics = Topics(broker.servers)
        self.live, self.topic = self.topics.make(2), self.topics.make(3)
        self.files = Files(base, job_id="together")
        self.drivers: list[Process] = []
        self.ids: set[int] = set()
        self._run("DROP SCHEMA IF EXISTS together, ckpt CASCADE")
        self._run("CREATE SCHEMA together")
        self._run("DROP TABLE IF EXISTS iceberg_tables, iceberg_namespace_properties")
        self._run_in_maria("DROP DATABASE IF EXISTS together")
        self._run_in_maria("CREATE DATABASE together")
        load_catalog(None, **self._catalog).create_namespace("lake")

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for driver in self.drivers:
            driver.end()

    @property
    def url(self) -> str:
        return f"postgresql://airflow:s3cr3tPW@127.0.0.1:{self.server.port}/postgres"

    @property
    def maria_url(self) -> str:
        return f"mysql://airflow:{PASSWORD}@127.0.0.1:{self.maria.port}/together?ssl_disabled=true"

    @property
    def _catalog(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": self.url.replace("postgresql://", "postgresql+psycopg://"),
            "warehouse": f"file://{self.base}/warehouse",
        }

    # ---- rows

    def put_history(self, files: int) -> None:
        self.ids |= self.files.put_ids("history", files, 10)

    def put_live(self, count: int = 20) -> None:
        first = 1_000_000 + len(self.ids)
        self.ids |= self.topics.put(self.live, range(first, first + count))

    # ---- drivers

    def start(self, env: Mapping[str, str], *flags: str) -> Process:
        conf = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": ",".join(map(str, connector_jars())),
        }
        params = {"base": self.base, "servers": self.broker.servers, "live": self.live, "topic": self.topic}
        command = [str(Path(sys.executable).parent / "ckpt"), "run", f"{JOB}:job"]
        command += ["--root", str(self.files.root), "--checkpoint-interval", "0.5s", "--take-over", *flags]
        for name, value in params.items():
            command += ["--param", f"{name}={value}"]
        for name, text in conf.items():
            command += ["--conf", f"{name}={text}"]
        log = self.base / f"driver-{len(self.drivers)}.log"
        connections = {"AIRFLOW_CONN_SHOP_DB": self.url, "AIRFLOW_CONN_SHOP_SQL": self.maria_url}
        driver = Process(command, log, env={**connections, **env})
        self.drivers.append(driver)
        return driver

    def until_step(
        self, step: str, *, after: bool, times: int = 1, host: str | None = None, flags: Sequence[str] = ()
    ) -> Process:
        """Start a driver and add rows until it pauses at the step."""
        elsewhere = {} if host is None else {HOST: host}
        driver = self.start({**pause_environ(step, after=after, times=times), **elsewhere}, *flags)

        def is_paused() -> bool:
            assert driver.exit_code is None, driver.tail()
            return stands_still(driver.pid)

        for _ in range(20):
            self.put_live()
            try:
                wait_until(is_paused, step, seconds=15)
                return driver
            except AssertionError:
                assert driver.exit_code is None, driver.tail()
        raise AssertionError(f"it did not come to {step}\n{driver.tail()}")

    def until_all_is_released(self, driver: Process) -> None:
        def is_released() -> bool:
            assert driver.exit_code is None, driver.tail()
            return self.missing() == []

        wait_until(is_released, lambda: f"rows of {self.missing()}\n{driver.tail()}", seconds=SECONDS, every=0.5)

    def missing(self) -> list[str]:
        return [sink for sink in SINKS if not self.ids <= set(self.shown(sink))]

    def finish(self) -> None:
        """Run the job once more, to its end."""
        before = self.state().epoch
        driver = self.start({})
        wait_until(lambda: self.state().epoch > before, driver.tail)  # requests are addressed to an epoch
        self.until_all_is_released(driver)
        self.files.request("drain")
        assert driver.wait(SECONDS) == 0, driver.tail()

    # ---- what is there

    def shown(self, sink: str) -> list[int]:
        look: Callable[[], Iterable[int]] = getattr(self, f"_of_{sink}")
        return sorted(look())

    def _of_files(self) -> list[int]:
        return [row["id"] for row in self.files.released("files")]

    def _of_table(self) -> list[int]:
        if not self._run("SELECT 1 FROM pg_tables WHERE schemaname = 'together' AND tablename = 'rows'"):
            return []
        return [row[0] for row in self._run("SELECT id FROM together.rows")]

    def _of_second(self) -> list[int]:
        if not self._run("SELECT 1 FROM pg_tables WHERE schemaname = 'together' AND tablename = 'second'"):
            return []
        return [row[0] for row in self._run("SELECT id FROM together.second")]

    def differ(self) -> int:
        """Return the number of rows that differ between the two tables of one transaction, as one query sees them."""
        if not self._of_second():
            return len(self._of_table())
        tables = ("together.rows", "together.second")
        sides = [f"(SELECT * FROM {table} EXCEPT SELECT * FROM {other})" for table, other in (tables, tables[::-1])]
        [[differing]] = self._run(f"SELECT count(*) FROM ({' UNION ALL '.join(sides)}) AS differing")
        return int(differing)

    def _of_mariadb(self) -> list[int]:
        if "rows" not in self._tables_of_maria():
            return []
        return [row[0] for row in self._run_in_maria("SELECT id FROM together.`rows`")]

    def _of_delta(self) -> list[int]:
        if not DeltaTable.is_deltatable(str(self.base / "delta")):
            return []
        rows: list[int] = DeltaTable(str(self.base / "delta")).to_pyarrow_table(columns=["id"])["id"].to_pylist()
        return rows

    def _of_iceberg(self) -> list[int]:
        catalog = load_catalog(None, **self._catalog)
        if not catalog.table_exists("lake.rows"):
            return []
        rows: list[int] = catalog.load_table("lake.rows").scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        return rows

    def _of_topic(self) -> list[int]:
        return self.topics.ids(self.topic)

    def computed(self) -> dict[str, dict[int, float]]:
        """Return the values of the job's random column by id, for each sink that has it."""
        files = {row["id"]: row["computed"] for row in self.files.released("files")}
        table = dict(self._run("SELECT id, computed FROM together.rows"))
        other_table = dict(self._run_in_maria("SELECT id, computed FROM together.`rows`"))
        delta = DeltaTable(str(self.base / "delta")).to_pyarrow_table().to_pylist()
        iceberg = load_catalog(None, **self._catalog).load_table("lake.rows").scan().to_arrow().to_pylist()
        lakes = [{row["id"]: row["computed"] for row in rows} for rows in (delta, iceberg)]
        return dict(
            zip(("files", "table", "mariadb", "delta", "iceberg"), (files, table, other_table, *lakes), strict=True)
        )

    def left_over(self) -> list[str]:
        """Return staged rows that remain: files in staging folders, and tables of the staging schema."""
        staged = [str(path) for path in self.base.rglob("staging/*/*") if path.is_file()]
        asked = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'ckpt'"
        staged += [row[0] for row in self._run(f"{asked} AND relkind = 'r' AND relname LIKE 's\\_%'")]
        return staged + [name for name in self._tables_of_maria() if name.startswith("ckpt_s_")]

    def state(self) -> JobState:
        return Journal(open_storage(self.files.root), "together").replay()

    def check_all(self) -> None:
        """Assert that each target has each row once, no other row and no staged row. The manifests must agree."""
        for sink in SINKS:
            assert self.shown(sink) == sorted(self.ids), sink
        manifests = read_manifests(self.files.path("files"))
        assert sum(manifest.rows for manifest in manifests) == len(self.ids)
        assert self.left_over() == []

    def _run(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def _run_in_maria(self, statement: str) -> list[Any]:
        connection = self.maria.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall())
        finally:
            connection.close()

    def _tables_of_maria(self) -> list[str]:
        return [row[0] for row in self._run_in_maria("SHOW TABLES IN together")]


def kill(driver: Process) -> None:
    driver.signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    wait_until(lambda: not driver.session(), driver.tail)


def go_on(driver: Process) -> None:
    driver.signal(signal.SIGCONT)


def request(world: World, kind: str) -> None:
    write_request(open_storage(world.files.root), "together", REQUESTS[kind](epoch=world.state().epoch))
