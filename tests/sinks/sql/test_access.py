"""Access: passwords, certificates, rights, and servers that do not answer."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import certifi
import pymysql
import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkUnavailableError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from tests.sinks.databases import rows_of
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import staged


@pytest.mark.parametrize("password", ["pässwört", "пароль密码", "plain"])
def test_a_password_may_contain_any_characters(maria: MariaDBWorld, password: str) -> None:
    maria.table()
    with suppress(Exception):
        maria.run("DROP USER umlaut")
    maria.run(f"CREATE USER umlaut IDENTIFIED BY '{password}'")
    maria.run("GRANT ALL ON *.* TO umlaut")
    url = maria.url.replace("airflow:", "umlaut:").replace("s3cr3tPW", quote(password))
    sink = maria.new(url=url)
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("ssl_ca=", (ssl.CERT_REQUIRED, False)),
        ("ssl_verify_identity=true&ssl_ca=", (ssl.CERT_REQUIRED, True)),
        ("ssl_verify_cert=false&ssl_ca=", (ssl.CERT_NONE, False)),
    ],
)
def test_the_given_ca_verifies_the_server(
    settings: str, expected: tuple[Any, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/sinks-databases.md: ``mysql+pymysql://user:password@host/database?ssl_ca=…``"""
    made: list[Any] = []

    def connect(connection: Any) -> None:
        made.append(connection.ctx)
        raise pymysql.err.OperationalError(2003, "not now")

    monkeypatch.setattr(pymysql.connections.Connection, "connect", lambda self, sock=None: connect(self))

    with socket.create_server(("127.0.0.1", 0)) as server, suppress(CkptError):
        url = f"mysql://me:pw@127.0.0.1:{server.getsockname()[1]}/shop?{settings}{certifi.where()}"
        SqlSink("orders", url=url).bind(SinkContext("j", "s")).last_released()
    assert (made[0].verify_mode, made[0].check_hostname) == expected


@pytest.mark.parametrize("extra", ['{"ca": "/a.pem"}', {"ca": "/a.pem"}])
def test_ssl_in_a_connections_extra_may_be_json(extra: Any) -> None:
    address = Address.of_connection(Connection("shop", "mysql", "h", extra={"ssl": extra}))
    assert address.parameters["ssl"] == {"ca": "/a.pem"}


@pytest.mark.parametrize(
    "extra", ["{", "REQUIRED", "[]", ["a"], {"ssl_mode": "VERIFY_IDENTITY"}, '{"ca": "a", "x": 1}']
)
def test_an_invalid_ssl_setting_is_refused(extra: Any) -> None:
    with pytest.raises(InvalidSinkError, match=r"'ssl' is no JSON object of ca, .*verify_mode"):
        Address.of_connection(Connection("shop", "mysql", "h", extra={"ssl": extra}))


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_an_unreadable_ca_is_refused(maria: MariaDBWorld, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    url = maria.url.replace("ssl_disabled=true", f"ssl_ca={tmp_path}/ca.pem")
    with pytest.raises(TargetRefusedError, match="TLS settings cannot be used here"):
        maria.bind(url=url).last_released()


@pytest.mark.parametrize("name", ["host", "login", "password", "schema"])
def test_a_setting_with_a_lone_surrogate_is_refused(name: str) -> None:
    setting = {"host": "host", "login": "user", "password": "password", "schema": "database"}[name]
    given: dict[str, Any] = {name: "a\ud800"}
    with pytest.raises(InvalidSinkError, match=f"'{setting}' has half of a character"):
        Address.of_connection(Connection("shop", "mysql", **given))


@pytest.fixture
def poor(maria: MariaDBWorld) -> str:
    """Return the URL for a user who may create tables, but not drop them."""
    maria.run("DROP USER IF EXISTS poor")
    maria.run("CREATE USER poor IDENTIFIED BY 'pooooor'")
    maria.run(f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {maria.schema}* TO poor")
    maria.table()
    return maria.url.replace("airflow:", "poor:").replace("s3cr3tPW", "pooooor")


STAGING = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")


@pytest.mark.parametrize("lacking", STAGING)
@pytest.mark.parametrize("has_ledger", [False, True])
def test_a_missing_right_on_the_staging_database_is_refused_by_name(
    maria: MariaDBWorld, poor: str, lacking: str, has_ledger: bool
) -> None:
    if has_ledger:
        maria.new()
    maria.run(f"GRANT DROP ON {maria.schema}* TO poor")
    maria.run(f"REVOKE {lacking} ON {maria.schema}* FROM poor")
    maria.run(f"GRANT SELECT, INSERT ON {maria.schema}orders TO poor")
    before = maria.tables()
    for ask in (lambda: maria.new(url=poor), lambda: maria.bind(url=poor).prepare()):
        with pytest.raises(TargetRefusedError, match=f"lacks {lacking} in the database .*, where rows are staged"):
            ask()
    assert maria.tables() == before
    maria.run(f"GRANT {lacking} ON {maria.schema}* TO poor")
    sink = maria.new(url=poor)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}


def test_ledger_rights_may_be_granted_on_the_ledger_tables_only(maria: MariaDBWorld, poor: str) -> None:
    maria.new()
    maria.run(f"GRANT DROP ON {maria.schema}* TO poor")
    maria.run(f"REVOKE UPDATE, DELETE ON {maria.schema}* FROM poor")
    for table in ("ledger", "targets", "released", "staged"):
        with pytest.raises(TargetRefusedError, match=r"lacks .*(UPDATE|DELETE) in the database"):
            maria.new(url=poor)
        right = "UPDATE" if table in ("ledger", "targets") else "DELETE"
        maria.run(f"GRANT {right} ON {maria.schema}ckpt_{table} TO poor")
    sink = maria.new(url=poor)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert sink.release([staged(sink, 2)], 2) == {"rows": 2}
    assert (maria.rows(), maria.staging_tables()) == (rows_of(1, 2), 0)


def test_a_missing_create_right_on_the_tables_database_is_refused(maria: MariaDBWorld, poor: str) -> None:
    other = f"{maria.database} other"
    maria.run(f"CREATE DATABASE `{other}`")
    maria.run(f"GRANT SELECT, INSERT, DROP ON `{other}`.* TO poor")
    maria.run(f"GRANT DROP ON {maria.schema}* TO poor")
    table: dict[str, Any] = {"table": f"{other}.lines", "staging_schema": maria.database, "create": True, "url": poor}
    with pytest.raises(TargetRefusedError, match="its user may create none in the database"):
        maria.new(**table)
    assert maria.tables() == ["orders"]
    maria.run(f"GRANT CREATE ON `{other}`.* TO poor")
    sink = maria.new(**table)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}


def test_a_user_who_may_not_drop_staging_tables_is_refused(maria: MariaDBWorld, poor: str) -> None:
    with pytest.raises(TargetRefusedError, match="lacks DROP in the database"):
        maria.new(url=poor)
    with pytest.raises(TargetRefusedError, match="lacks DROP in the database"):
        maria.bind(url=poor).prepare()


def test_a_release_succeeds_though_its_staging_table_cannot_be_dropped(
    maria: MariaDBWorld, poor: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The user has lost the right to drop after the rows were staged."""
    maria.run(f"GRANT DROP ON {maria.schema}* TO poor")
    sink = maria.new(url=poor)
    handle = staged(sink, 1)
    maria.run(f"REVOKE DROP ON {maria.schema}* FROM poor")
    assert sink.release([handle], 1) == {"rows": 2}
    assert "cannot be deleted" in caplog.text
    assert (maria.rows(), maria.staging_tables()) == (rows_of(1), 1)
    maria.run(f"GRANT DROP ON {maria.schema}* TO poor")
    assert sink.release([staged(sink, 2)], 2) == {"rows": 2}
    assert maria.staging_tables() == 0


@pytest.mark.slow
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_r16_a_server_that_accepts_but_never_answers_is_unreachable(tmp_path: Path, family: int) -> None:
    with socket.socket(family) as server:
        server.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "s"))
        server.listen()
        at = server.getsockname()
        host, more = (f"127.0.0.1:{at[1]}", "") if family == socket.AF_INET else ("localhost", f"&unix_socket={at}")
        sink = SqlSink("orders", url=f"mysql://me:s3cr3tPW@{host}/shop?ssl_disabled=true&connect_timeout=1{more}")
        bound, outcomes = sink.bind(SinkContext("orders", "lake")), list[Any]()

        def ask() -> None:
            try:
                outcomes.append(bound.last_released())
            except BaseException as error:
                outcomes.append(error)

        threading.Thread(target=ask, daemon=True).start()
        threading.Event().wait(8)
    assert [type(outcome) for outcome in outcomes] == [SinkUnavailableError]


@pytest.fixture
def held(maria: MariaDBWorld) -> Iterator[Any]:
    """Lock a row of the table from another session, and yield the function that releases it."""
    maria.table("id int NOT NULL PRIMARY KEY, city text")
    maria.put((10, "old"))
    other = maria.server.connect(autocommit=False)
    other.cursor().execute(f"SELECT * FROM {maria.schema}orders FOR UPDATE")
    yield other.rollback
    other.close()


def test_r16_a_server_that_hangs_during_a_statement_is_unreachable(maria: MariaDBWorld, held: Any) -> None:
    sink = maria.new(url=maria.url + "&read_timeout=2", mode="upsert", key=["id"])
    handle = staged(sink, 1)
    with pytest.raises(SinkUnavailableError, match="2013"):
        sink.release([handle], 1)
    held()
    assert sink.release([handle], 1) == {"rows": 2}


def test_a_statement_may_take_longer_than_the_connect_timeout(maria: MariaDBWorld, held: Any) -> None:
    sink = maria.new(url=maria.url + "&connect_timeout=2", mode="upsert", key=["id"])
    handle = staged(sink, 1)
    timer = threading.Timer(5, held)
    timer.start()
    assert sink.release([handle], 1) == {"rows": 2}
    timer.join()
