from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pymysql
import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import rows_of, staged


@pytest.mark.parametrize("password", ["pässwört", "пароль密码"])
def test_a_password_may_have_any_characters(maria: MariaDBWorld, password: str) -> None:
    maria.table()
    with suppress(Exception):
        maria.run("DROP USER umlaut")
    maria.run(f"CREATE USER umlaut IDENTIFIED BY '{password}'")
    maria.run("GRANT ALL ON *.* TO umlaut")
    url = maria.url.replace("airflow:", "umlaut:").replace("s3cr3tPW", quote(password))
    try:
        sink = maria.new(url=url)
    except CkptError as error:
        assert password not in str(error)
        raise
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


def test_a_ca_that_is_named_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/sinks-databases.md: ``mysql+pymysql://user:password@host/database?ssl_ca=…``"""
    made: list[Any] = []

    class Made(Exception):
        pass

    def connect(connection: Any) -> None:
        made.append(connection.ctx)
        raise pymysql.err.OperationalError(2003, "not now")

    monkeypatch.setattr(pymysql.connections.Connection, "connect", lambda self, sock=None: connect(self))
    import certifi

    sink = SqlSink("orders", url=f"mysql://me:pw@127.0.0.1/shop?ssl_ca={certifi.where()}").bind(SinkContext("j", "s"))
    with suppress(CkptError):
        sink.last_released()
    assert made[0].verify_mode == ssl.CERT_REQUIRED


def test_a_table_with_everything(maria: MariaDBWorld) -> None:
    maria.table(
        "id int NOT NULL, city varchar(99) NOT NULL, twice int AS (id * 2) STORED, seen timestamp(6) NOT NULL DEFAULT "
        "current_timestamp(6) ON UPDATE current_timestamp(6), PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3 -- "
    )
    maria.run(f"CREATE TABLE {maria.schema}audit (id int)")
    maria.run(
        f"CREATE TRIGGER {maria.schema}t AFTER INSERT ON {maria.schema}orders FOR EACH ROW "
        f"INSERT INTO {maria.schema}audit VALUES (NEW.id)"
    )
    for mode, given in (("append", {}), ("upsert", {"key": ["id"]}), ("replace", {})):
        sink = maria.new(mode, mode=mode, **given)
        sink.release([staged(sink, 1 if mode != "append" else 2)], 1)
    assert [row[:3] for row in maria.rows()] == [(id_, city, 2 * id_) for id_, city in rows_of(1)]


def test_ssl_of_a_connection_may_be_json_as_airflows_hook_takes_it(
    maria: MariaDBWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySqlHook: a text is JSON; a connection as a URI has nothing else."""
    fields = f"mysql://airflow:s3cr3tPW@127.0.0.1:{maria.server.port}/mysql?ssl=" + quote('{"ca": "/no/such/file"}')
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", fields)
    sink = SqlSink("orders", conn_id="shop").bind(SinkContext("j", "s"))
    try:
        sink.last_released()
    except (CkptError, OSError):
        pass  # not AttributeError: 'str' object has no attribute 'get'
