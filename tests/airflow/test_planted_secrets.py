"""A password in every kind of connection is in nothing that a run writes, shows or passes on.

The runs are real: the operator, spark-submit, Spark and the clients of the databases. Some end well, some fail with the
words of a client that was given the password.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk.exceptions import AirflowException
from pyiceberg.catalog import load_catalog
from s3fs import S3FileSystem

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from tests.airflow.support import StateStore, context
from tests.kafka.jars import connector_jars
from tests.s3.jars import hadoop_aws
from tests.support.mariadb import NOT_INSTALLED, MariaDB, is_installed
from tests.support.postgres import PostgreSQL, initdb
from tests.support.s3_server import s3_server

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
MARK = "Pl4nted"
PASSWORD = f"{MARK}/s3cr3t+ PW%"
"""Each form of it that a program prints has the mark in it, but for the header of a login."""
LOGIN = "airflow"
HEADER = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode().rstrip("=")

JOB = """
import os

from airflow_provider_ckpt import *
from airflow_provider_ckpt.gates.airflow_variable_gate import AirflowVariableGate

job = Job("orders")

{source}

@job.transform(inputs=[orders])
def rows(all_rows):
    return all_rows

{sinks}
"""
READ_FILES = """
@job.source(bounded=True)
def orders(read):
    return read.schema("id INT, note STRING").json({folder!r})
"""
READ_KAFKA = """
@job.source
def orders(read):
    reader = read.format("kafka").options(**kafka_options("planted_kafka"))
    return reader.option("subscribe", "orders").option("kafka.default.api.timeout.ms", "15000").load()
"""
MYSQL = 'job.sink("mysql", rows, SqlSink("shop.orders", conn_id="planted_mysql", create=True))\n'
POSTGRES = 'job.sink("postgres", rows, PostgresSink("public.orders", conn_id="planted_postgres", create=True))\n'
FILES = 'job.sink("files", rows, FileSink({out!r}))\n'
DELTA = 'job.sink("delta", rows, DeltaSink({out!r} + "-delta", storage_options={{"token": os.environ["PLANTED"]}}))\n'
ICEBERG = """
catalog = {{"type": "sql", "uri": os.environ["PLANTED_URI"], "warehouse": "file://" + {out!r} + "-lake"}}
job.sink("iceberg", rows, IcebergSink("lake.orders", catalog=catalog))
"""
KAFKA = """
from pyspark.sql import functions as F

@job.transform(inputs=[rows])
def records(all_rows):
    return all_rows.select(F.to_json(F.struct("id")).alias("value"))

job.sink("kafka", records, KafkaSink(conn_id="planted_kafka", topic="t", staging={out!r} + "-staging"))
"""
GATE = 'job.sink("files", rows, FileSink({out!r}), gate=AirflowVariableGate("approved", conn_id="planted_api"))\n'


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    if not is_installed():
        pytest.skip(NOT_INSTALLED)
    with MariaDB() as server:
        with server.connect() as connection:
            cursor = connection.cursor()
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE USER planted IDENTIFIED BY %s", [PASSWORD])
            cursor.execute("GRANT ALL ON *.* TO planted")
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSQL]:
    if initdb() is None:
        pytest.skip("PostgreSQL is not installed")
    with PostgreSQL() as server:
        yield server


class ClosingServer:
    """A server that closes each connection at once. ``connections``: how many clients have connected."""

    def __init__(self) -> None:
        self.connections = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # closed
                return
            self.connections += 1
            connection.close()


@pytest.fixture
def closing() -> Iterator[ClosingServer]:
    server = ClosingServer()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server
    server.socket.shutdown(socket.SHUT_RDWR)
    server.socket.close()
    thread.join()


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    fields = {"login": LOGIN, "password": PASSWORD, "host": "127.0.0.1", **fields}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """Yield the command lines of all processes that are there while the block runs."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


class Run:
    """One run of a job by the operator, and everything that it leaves."""

    def __init__(self, folder: Path, sinks: str, conn_ids: list[str], *, source: str = READ_FILES, **conf: str) -> None:
        self.folder, self.store = folder, StateStore()
        (folder / "in").mkdir()
        (folder / "in/1.json").write_text('{"id": 1, "note": "x"}\n')
        self.job = folder / "job.py"
        self.job.write_text(JOB.format(source=source.format(folder=str(folder / "in")), sinks=sinks))
        self.context = context(self.store)
        self.task = CheckpointedSparkJobOperator(
            task_id="orders",
            job=f"{self.job}:job",
            job_id="orders",
            ckpt_conn_id="planted_root",
            conn_ids=conn_ids,
            restart_attempts=0,
            sink_timeout="20s",
            stop_after="40s",
            conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}/events", **conf},
        )
        (folder / "events").mkdir()
        self.result: Any = None
        self.error = ""

    def execute(self) -> None:
        with command_lines() as self.commands:
            try:
                self.result = self.task.execute(self.context)
            except (AirflowException, CkptError) as error:
                cause: BaseException | None = error
                while cause is not None:
                    self.error += f"{cause!r} {cause} {getattr(cause, 'data', '')}\n"
                    cause = cause.__cause__ or cause.__context__

    def left(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of everything that the run has written, shown or passed on."""
        yield "error", self.error
        yield "result", json.dumps(self.result, default=str)
        yield "xcoms", json.dumps(self.context["ti"].pushed, default=str)
        yield "task state", json.dumps(self.store.writes, default=str)
        yield "rendered fields", str([getattr(self.task, name, None) for name in self.task.template_fields])
        yield "command lines", "\n".join(self.commands)
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield str(path), path.read_bytes().decode(errors="replace")


def assert_nowhere(run: Run, shown: str) -> None:
    leaks = [name for name, text in (*run.left(), ("output", shown)) if MARK in text or HEADER in text]
    assert not leaks, [text for name, text in run.left() if name in leaks][:2]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    extra = {"storage_options": {"secret": PASSWORD, "client_kwargs": {"aws_session_token": PASSWORD}}}
    monkeypatch.setenv(
        "AIRFLOW_CONN_PLANTED_ROOT",
        json.dumps({"conn_type": "ckpt", "host": str(tmp_path / "root"), "extra": extra}),
    )


def test_a_successful_run_shows_no_password(
    tmp_path: Path,
    mariadb: MariaDB,
    postgres: PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    connect(monkeypatch, "planted_mysql", conn_type="mysql", login="planted", port=mariadb.port, schema="shop")
    connect(monkeypatch, "planted_postgres", conn_type="postgres", port=postgres.port, schema="postgres")
    uri = f"postgresql+psycopg://{LOGIN}:{quote(PASSWORD, safe='')}@127.0.0.1:{postgres.port}/postgres"
    monkeypatch.setenv("PLANTED", PASSWORD)
    monkeypatch.setenv("PLANTED_URI", uri)
    out = str(tmp_path / "out")
    warehouse = {"type": "sql", "uri": uri, "warehouse": f"file://{out}-lake"}
    load_catalog("default", **warehouse).create_namespace("lake")
    lakes = DELTA.format(out=out) + ICEBERG.format(out=out)
    run = Run(tmp_path, MYSQL + POSTGRES + FILES.format(out=out) + lakes, ["planted_mysql", "planted_postgres"])
    run.execute()
    assert run.result is not None, run.error
    assert run.result["status"] == "FINISHED"
    for command in (["show", "orders"], ["show", "orders", "--json"], ["jobs"], ["checkpoints", "orders"]):
        assert main([*command, "--root", str(tmp_path / "root")]) == 0
    shown = capfd.readouterr()
    assert_nowhere(run, shown.out + shown.err)
    with mariadb.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, note FROM shop.orders")
        assert list(cursor.fetchall()) == [(1, "x")]


REFUSED = "MySQL refuses the password"
FROM_KAFKA = "the brokers of a source do not answer"
FAILURES = {
    REFUSED: (MYSQL, "planted_mysql"),
    "PostgreSQL does not answer": (POSTGRES, "planted_postgres"),
    "the brokers of a sink do not answer": (KAFKA, "planted_kafka"),
    FROM_KAFKA: (FILES, "planted_kafka"),
    "the API server of a gate does not answer": (GATE, "planted_api"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_run_shows_no_password(
    failure: str,
    tmp_path: Path,
    mariadb: MariaDB,
    closing: ClosingServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    extra = {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT", "sasl.password": PASSWORD}
    extra |= {"sasl.username": LOGIN, "bootstrap.servers": f"127.0.0.1:{closing.port}", "group.id": "orders"}
    connect(monkeypatch, "planted_mysql", conn_type="mysql", login="nobody", port=mariadb.port, schema="shop")
    connect(monkeypatch, "planted_postgres", conn_type="postgres", port=closing.port, schema="postgres")
    connect(monkeypatch, "planted_kafka", conn_type="kafka", extra=extra)
    connect(monkeypatch, "planted_api", conn_type="http", host=f"http://127.0.0.1:{closing.port}")
    sinks, conn_id = FAILURES[failure]
    given: dict[str, str] = {}
    if failure == FROM_KAFKA:
        given = {"source": READ_KAFKA, "spark.jars": ",".join(map(str, connector_jars()))}
    run = Run(tmp_path, sinks.format(out=str(tmp_path / "out")), [conn_id], **given)
    run.execute()
    assert run.error, run.result
    if failure == REFUSED:
        assert "1045" in run.error
    else:
        assert closing.connections > 0, run.error
    shown = capfd.readouterr()
    assert_nowhere(run, shown.out + shown.err)
    assert "orders" in run.error


def test_a_run_on_an_unreachable_root_shows_no_password(
    tmp_path: Path, closing: ClosingServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"key": LOGIN, "secret": PASSWORD, "endpoint_url": f"http://127.0.0.1:{closing.port}"}
    options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}  # type: ignore[assignment]
    fields = {"conn_type": "ckpt", "host": "s3://planted/root", "extra": {"storage_options": options}}
    monkeypatch.setenv("AIRFLOW_CONN_PLANTED_ROOT", json.dumps(fields))
    run = Run(tmp_path, FILES.format(out=str(tmp_path / "out")), [])
    run.execute()
    assert closing.connections > 0, run.error
    assert "s3://planted/root" in run.error
    shown = capfd.readouterr()
    assert_nowhere(run, shown.out + shown.err)


def test_a_run_on_a_root_in_s3_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with s3_server() as endpoint:
        options = {"key": LOGIN, "secret": PASSWORD, "endpoint_url": endpoint}
        S3FileSystem(**options).mkdir("planted")
        fields = {"conn_type": "ckpt", "host": "s3://planted/root", "extra": {"storage_options": options}}
        monkeypatch.setenv("AIRFLOW_CONN_PLANTED_ROOT", json.dumps(fields))
        classes = {"spark.driver.extraClassPath": f"{hadoop_aws()}/*"}
        run = Run(tmp_path, FILES.format(out=str(tmp_path / "out")), [], **classes)
        run.execute()
        assert run.result is not None, run.error
        assert run.result["status"] == "FINISHED"
        shown = capfd.readouterr()
        assert_nowhere(run, shown.out + shown.err)
        store = S3FileSystem(**options, use_listings_cache=False)
        written = [store.cat_file(path).decode(errors="replace") for path in store.find("planted")]
    assert written
    assert not [text for text in written if MARK in text or HEADER in text]
