from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.kafka_brokers import KafkaBrokers
from airflow_provider_ckpt.gates.airflow_variable_gate import AirflowVariableGate
from airflow_provider_ckpt.gates.errors import VariableUnreadableError
from airflow_provider_ckpt.job.gate import PendingRelease
from airflow_provider_ckpt.sinks.database.errors import DatabaseUnreachableError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.test_review2 import setting  # noqa: F401
from tests.sinks.sql.world import COLUMNS, Rows, rows_of, stage, staged


def test_r16_a_server_that_takes_a_connection_and_says_nothing_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        sink = SqlSink("orders", url=f"mysql://me:s3cr3tPW@127.0.0.1:{port}/shop?ssl_disabled=true&connect_timeout=1")
        bound, found = sink.bind(SinkContext("orders", "lake")), list[Any]()

        def ask() -> None:
            try:
                found.append(bound.last_released())
            except BaseException as error:
                found.append(error)

        threading.Thread(target=ask, daemon=True).start()
        threading.Event().wait(8)
    assert [type(one) for one in found] == [DatabaseUnreachableError]


def test_a_limit_of_the_server_on_answers_takes_no_staged_rows_for_gone(maria: MariaDBWorld, setting: Any) -> None:  # noqa: F811
    maria.table()
    sink = maria.new()
    handles = [staged(sink, number) for number in range(1, 9)]
    setting("sql_select_limit", "7")  # as somebody sets 1000 against careless queries
    assert sink.release(handles, 1) == {"rows": 16}


class Api:
    def __init__(self, code: int, text: str) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *given: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def test_a_wrong_address_is_not_taken_for_a_variable_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What FastAPI says of each path that it does not know, as of an Airflow behind another base_url."""
    api = Api(404, '{"detail": "Not Found"}')
    fields = {"conn_type": "http", "host": f"http://127.0.0.1:{api.http.server_address[1]}", "extra": {"token": "t0k3n"}}
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", json.dumps(fields))
    gate = AirflowVariableGate("approved", "airflow_api")
    try:
        with pytest.raises(VariableUnreadableError):
            gate(PendingRelease("orders", "lake", 1, 1))
    finally:
        api.http.shutdown()


def test_sources_and_sinks_of_one_connection_log_in_alike() -> None:
    extra = {"bootstrap.servers": "h:9092", "security.protocol": "SASL_PLAINTEXT"}
    brokers = KafkaBrokers.of_connection(Connection("k", "kafka", None, None, "me", "s3cr3t", None, extra))
    of_source = brokers.reader_options()["kafka.sasl.mechanism"]
    of_sink = brokers.settings.get("sasl.mechanism", "GSSAPI")  # librdkafka's default
    assert of_source == of_sink


def test_an_executor_survives_a_pause_that_is_longer_than_the_servers_wait_timeout(
    maria: MariaDBWorld,
    setting: Any,  # noqa: F811
) -> None:
    maria.table()
    sink = maria.new()
    setting("wait_timeout", "1")

    class Slow(Rows):
        def batches(self, rows: Any) -> Any:
            for row in rows:
                yield from super().batches([row])
                threading.Event().wait(2.5)

    handle = stage(sink, Slow([rows_of(1)], COLUMNS), 1)
    sink.release([handle], 1)
    assert maria.rows() == rows_of(1)


def test_in_sqlite_rtrim_is_a_collation_too(lite: SQLiteWorld) -> None:
    lite.table("city text COLLATE RTRIM NOT NULL PRIMARY KEY, id int NOT NULL")
    columns = (("city", "string"), ("id", "integer"))
    sink = lite.bind(mode="upsert", key=["city"])
    sink.prepare()
    sink.release([stage(sink, Rows([[("a ", 1), ("a", 2)]], columns), 1)], 1)
    assert [row[1] for row in lite.rows()] == [2]
