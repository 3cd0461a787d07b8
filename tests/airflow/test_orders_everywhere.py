"""Example with Kafka, PostgreSQL and Delta. Its task is retried several times, with real servers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from airflow.sdk import DAG
from confluent_kafka import Producer

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.file.manifests import read_manifests, released_files
from airflow_provider_ckpt.storage.opening import open_storage
from tests.airflow.support import StateStore, context
from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.topics import Topics
from tests.spark.harness import read_rows, write_rows
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb
from tests.support.processes import command_name, parent
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.sinks, pytest.mark.timeout(1800)]

EXAMPLE = Path(__file__).parents[2] / "dags_examples" / "orders_everywhere.py"
JOB = "orders_everywhere"
TABLE = "CREATE TABLE shop.large_orders (id bigint PRIMARY KEY, shop text, amount double precision)"
SECRET = "s3cr3tPW"
Order = dict[str, Any]


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    if initdb() is None:
        pytest.skip(NOT_INSTALLED)
    with PostgreSQL(fsync="on") as running:
        yield running


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as running:
        yield running


class Shop:
    """Environment of a new user: a folder with files, a topic, a table, connections, and the example's Dag."""

    def __init__(self, base: Path, server: PostgreSQL, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.lake, self.server, self.servers = base, base / "lake", server, broker.servers
        self.orders: dict[int, Order] = {}
        Topics(broker.servers).make(2, name="orders")
        connections = {
            "SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "CKPT_DEFAULT": json.dumps({"conn_type": "ckpt", "host": str(base / "root")}),
            "SHOP_DB": self.url,
        }
        for name, text in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", text)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            monkeypatch.setenv(name, sys.executable)
        self.sql("CREATE SCHEMA shop", TABLE)
        self.tries, self.store, self.failures = 0, StateStore(), list[BaseException]()

    @property
    def url(self) -> str:
        return f"postgresql://airflow:{SECRET}@127.0.0.1:{self.server.port}/postgres"

    def sql(self, *statements: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return list(cursor.fetchall()) if cursor.description else []

    # ---- orders

    def history(self, files: int, each: int) -> None:
        for number in range(files):
            folder = self.lake / "raw" / "orders"
            folder.mkdir(parents=True, exist_ok=True)
            write_rows(folder / f"{number}.parquet", self._new(each), 1_700_000_000 + number)

    def live(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for order in self._new(count):
            producer.produce("orders", json.dumps(order), key=str(order["id"]))
        producer.produce("orders", "no order at all")
        assert producer.flush(60) == 0

    def _new(self, count: int) -> list[Order]:
        first = len(self.orders)
        made: list[Order] = [
            {"id": number, "shop": f"shop {number % 3}", "amount": 10.0 * (number % 20)}
            for number in range(first, first + count)
        ]
        self.orders |= {order["id"]: order for order in made}
        return made

    # ---- outputs

    def files(self) -> list[Order]:
        rows = [row for file in released_files(str(self.lake / "orders")) for row in read_rows(Path(file))]
        return sorted(rows, key=lambda row: int(row["id"]))

    def delta(self) -> list[Order]:
        from deltalake import DeltaTable

        orders: list[Order] = DeltaTable(str(self.lake / "orders_delta")).to_pyarrow_table().to_pylist()
        return sorted(orders, key=lambda row: int(row["id"]))

    def table(self) -> list[Order]:
        rows = self.sql("SELECT id, shop, amount FROM shop.large_orders ORDER BY id")
        return [{"id": row[0], "shop": row[1], "amount": row[2]} for row in rows]

    def released(self) -> int:
        return sum(manifest.rows for manifest in read_manifests(str(self.lake / "orders")))

    def large(self) -> list[Order]:
        return [order for order in self.orders.values() if order["amount"] >= 100]

    def everything(self) -> bool:
        return self.released() >= len(self.orders) and len(self.table()) >= len(self.large())

    def state(self) -> JobState:
        return Journal(open_storage(self.base / "root"), JOB).replay()

    # ---- tries

    def begin_try(self) -> threading.Thread:
        """Start a try of the task, as an Airflow worker does."""
        task = dag().get_task("orders")
        task.job_params = {"lake": str(self.lake), "servers": self.servers}
        # no download from Maven Central in each try
        task.packages, task.jars = None, ",".join(map(str, connector_jars()))
        task.stop_at, task.checkpoint_interval = None, 1
        self.tries += 1
        number, failures = self.tries, self.failures

        def attempt() -> None:
            try:
                task.execute(context(self.store, try_number=number, max_tries=10))
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        return thread

    def until(self, trying: threading.Thread, look: Callable[[], bool], description: str) -> None:
        def is_reached() -> bool:
            assert trying.is_alive(), self.failures
            return look()

        wait_until(is_reached, description, seconds=300, every=0.3)

    def kill_driver(self, trying: threading.Thread) -> None:
        """Kill the driver's Python process and its JVM. Airflow's side continues and sees a failed task."""
        for pid in drivers():
            os.kill(pid, signal.SIGKILL)
        trying.join(120)
        assert not trying.is_alive()
        assert len(self.failures) == self.tries


def dag() -> Any:
    spec = importlib.util.spec_from_file_location("orders_everywhere_of_this_test", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [example] = [value for value in vars(module).values() if isinstance(value, DAG)]
    return example


def drivers() -> list[int]:
    """Return the process ids of JVMs below this process, and of their Python processes."""
    below: set[int] = {os.getpid()}
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for pid in sorted(pids):
        try:
            if parent(pid) in below:
                below.add(pid)
        except AssertionError:
            continue  # the process has ended meanwhile
    marked = [pid for pid in below if _is_driver(pid)]
    assert marked, "no driver was found"
    return marked


def _is_driver(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"airflow_provider_ckpt" in words and command_name(pid) in ("java", "python", "python3")


@pytest.fixture
def shop(tmp_path: Path, server: PostgreSQL, broker: Broker, monkeypatch: pytest.MonkeyPatch, airflow_db: None) -> Shop:
    return Shop(tmp_path, server, broker, monkeypatch)


def test_each_order_is_once_in_each_target_after_any_kill(shop: Shop) -> None:
    shop.history(12, 400)
    shop.live(100)
    trying = shop.begin_try()
    shop.until(trying, lambda: shop.released() > 0, "a release while history is read")
    shop.kill_driver(trying)

    trying = shop.begin_try()
    shop.until(trying, lambda: shop.state().epoch == 2 and bool(shop.state().dropped), "the end of history")
    shop.live(100)
    shop.kill_driver(trying)

    trying = shop.begin_try()
    shop.until(trying, shop.everything, "all orders so far")
    shop.server.crash()
    shop.live(100)
    trying.join(300)
    assert "could not be reached" in str(shop.failures[-1]) or "RESTARTING" in str(shop.failures[-1])

    shop.server.launch()
    trying = shop.begin_try()
    shop.until(trying, shop.everything, "what came while the database was away")
    shop.live(50)
    shop.until(trying, shop.everything, "the live orders of the evening")
    CheckpointHook("ckpt_default").stop(JOB)
    trying.join(180)
    assert len(shop.failures) == 3, shop.failures

    trying = shop.begin_try()  # the next day's Dag run
    shop.live(50)
    shop.until(trying, shop.everything, "the orders of the next day")
    CheckpointHook("ckpt_default").stop(JOB)
    trying.join(180)
    assert len(shop.failures) == 3, shop.failures

    wanted = list(shop.orders.values())
    assert shop.files() == wanted
    assert shop.delta() == wanted
    assert shop.table() == shop.large()
    assert not [
        path for path in (shop.base / "root").rglob("*") if path.is_file() and SECRET in path.read_text("latin1")
    ]
