"""The sink as a value, the target it points to, and its secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, SinkInput
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.inserting import error_text
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from airflow_provider_ckpt.sinks.sql.staging import refers_only_to
from tests.sinks.databases import COLUMNS, rows_of
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import World, staged
from tests.support.mariadb import PASSWORD

CONTEXT = SinkContext("orders", "lake")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": ""}, "is no name of a table"),
        ({"table": "a.b.c"}, "write schema.table"),
        ({"table": "x" * 65}, "has 65 characters, and MySQL takes 64"),
        ({"table": "a%b"}, "holds a %"),
        ({"table": "a "}, "begins or ends with a blank"),
        ({"table": " a"}, "begins or ends with a blank"),
        ({"table": "a", "staging_schema": "\ta"}, "begins or ends with a blank"),
        ({"staging_schema": ""}, "is empty"),
        ({"url": "sqlite:////a.db", "staging_schema": "ckpt"}, "does not exist in a file of SQLite"),
        ({"mode": "merge"}, "is unknown; use one of append, upsert, replace"),
        ({"mode": "upsert"}, "is needed for upsert"),
        ({"key": ["id"]}, "is for upsert only"),
        ({"conn_id": "db"}, "give one of the two"),
        ({"url": None}, "give one of the two"),
        ({"url": "host/database"}, "has no kind in front"),
    ],
)
def test_an_invalid_sink_is_refused_when_the_job_is_validated(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        SqlSink(**{"table": "orders", "url": "mysql://h/d", **given}).validate()


@pytest.mark.parametrize(
    "dialect",
    ["postgresql", "oracle+oracledb", "mssql+pyodbc", "mysql+mysqldb", "mariadb+mariadbconnector", "sqlite+aiosqlite"],
)
def test_unsupported_databases_and_drivers_are_refused(dialect: str) -> None:
    with pytest.raises(InvalidSinkError, match="for which a SqlSink is not known to be") as raised:
        SqlSink("orders", url=f"{dialect}://me:{PASSWORD}@h/d").validate()
    assert raised.value.data["dialect"] == dialect
    assert ("PostgresSink" in str(raised.value)) is (dialect == "postgresql")
    assert PASSWORD not in str(raised.value)
    with pytest.raises(InvalidSinkError, match="connection 'db'"):
        Address.of_connection(Connection("db", dialect))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///file:a.db", "names no file"),
        ("sqlite:///a.db", "is relative"),
        ("sqlite:////a.db?mode=memory", "'mode' is none for a file"),
        ("mysql://h/d?init_command=x", "'init_command' is unknown here"),
        ("mysql://h/d?charset=latin1", "'charset' is unknown here, or not of its kind"),
        ("mysql://h/d?ssl_verify_identity=true", "'ssl_verify_identity' needs ssl_ca"),
        ("mysql://h/d?ssl_disabled=perhaps", "'ssl_disabled' is unknown here, or not of its kind"),
    ],
)
def test_invalid_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        SqlSink("orders", url=url).bind(CONTEXT)


def test_an_address_is_read_from_a_url_or_connection() -> None:
    expected = {"host": "h", "port": 3307, "user": "me", "password": "p@w", "database": "d", "connect_timeout": 5}
    by_url = Address.of_url("mariadb://me:p%40w@h:3307/d?connect_timeout=5&charset=utf8mb4")
    extra = {"connect_timeout": "5", "cursor": "dictcursor"}
    by_connection = Address.of_connection(Connection("db", "mysql", "h", 3307, "me", "p@w", "d", extra))
    assert by_url is not None
    assert by_url.parameters == by_connection.parameters == expected
    assert repr(by_url) == "Address(***)"
    assert Address.of_connection(Connection("db", "sqlite", "/folder/a.db")).parameters == {"path": "/folder/a.db"}
    with pytest.raises(BadConnectionError, match="IAM"):
        Address.of_connection(Connection("db", "mysql", extra={"iam": True}))


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ((), {}, "has no columns"),
        (COLUMNS, {"output_mode": "update"}, "output mode 'update' repeats a row"),
        ((("id", "integer"), ("ID", "string")), {}, "that differ only in upper and lower case"),
        ((("_ckpt_part", "integer"),), {}, "is a name that the sink itself uses"),
        ((("x" * 65, "integer"),), {}, "has 65 characters"),
        ((("id", "void"),), {}, "is of type void, which no column of MySQL or SQLite keeps"),
        ((("id", "interval day to second"),), {}, "is of type interval day to second"),
    ],
)
def test_unsuitable_rows_are_refused_without_a_query(columns: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SinkInputError, match=message):
        SqlSink("orders", url="mysql://h/d").check_input(SinkInput("lake", columns, **given))


def test_the_password_is_neither_shown_nor_recorded(maria: MariaDBWorld) -> None:
    sink = maria.table().sink()
    bound = maria.new()
    handle = staged(bound, 1)
    shown = [repr(sink), str(sink.definition()), repr(bound), repr(bound._database), repr(bound._database.address)]
    shown += [json.dumps(handle), repr(bound.__dict__), repr(bound._database._engine)]
    assert PASSWORD not in " ".join(shown)
    assert PASSWORD not in str(maria.run("SELECT * FROM information_schema.tables"))
    with pytest.raises(InvalidSinkError) as raised:
        SqlSink("orders", url=f"mysql://me:{PASSWORD}@h:port/d").bind(CONTEXT)
    assert PASSWORD not in f"{raised.value} {raised.value.__context__} {raised.value.__cause__}"
    with pytest.raises(CkptError, match="error 1045") as denied:
        maria.bind(url=maria.url.replace(PASSWORD, f"{PASSWORD}x")).last_released()
    assert PASSWORD not in f"{denied.value} {denied.value.data} {denied.value.__context__}"


def test_an_airflow_connection_gives_the_address_of_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = world.table().url
    if isinstance(world, SQLiteWorld):
        uri = f"sqlite://{str(world.path).replace('/', '%2F')}"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", uri.replace("mysql+pymysql", "mysql"))
    sink = SqlSink("orders", conn_id="shop_db")
    bound = sink.bind(CONTEXT)
    bound.prepare()
    assert bound.last_released() == 0
    assert sink.definition()["conn_id"] == "shop_db"
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_DB")
    with pytest.raises(ConnectionMissingError, match="conn_ids="):
        sink.bind(CONTEXT)


class OperationalError(Exception):
    """Error with the name that the driver's own error has."""


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (1062, "Duplicate entry 'a key 'x'' for key 'PRIMARY'", "PRIMARY"),
        (1048, "Column 'id' cannot be null", "id"),
        (1366, "Incorrect string value: '\\xE2' for column `p`.`s`.`lat` at row 1", "lat"),
        (1406, "Data too long for column 'city' at row 1", "city"),
        (4025, "CONSTRAINT `positive` failed for `p`.`s`", "positive"),
        (1452, "Cannot add or update a child row: (`p`.`t`, CONSTRAINT `fk` FOREIGN KEY (`x`) REFERENCES `y`)", "fk"),
        (1292, "Truncated incorrect DOUBLE value: 'secret for key 'x' or so'", ""),
    ],
)
def test_an_error_text_has_the_number_and_names_but_no_values(code: int, message: str, expected: str) -> None:
    assert error_text(OperationalError(code, message)) == f"error {code}, OperationalError" + (
        expected and f", {expected}"
    )


def test_a_check_is_used_only_if_all_its_columns_are_given() -> None:
    assert refers_only_to("`a` <> '`b`' and `a` > 1", ["a"])
    assert not refers_only_to("`a` <> `b`", ["a"])
    assert not refers_only_to("1 = 1", ["a"])


@pytest.mark.parametrize("remembered", [0, 2])
def test_r9_the_ledger_drops_only_batches_that_no_release_can_repeat(
    world: World, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """Each release repeats the handles of the release before, because the journal may not know that it succeeded."""
    monkeypatch.setattr("airflow_provider_ckpt.sinks.database.participant_release.REMEMBERED", remembered)
    world.table("id int NOT NULL PRIMARY KEY, city text")
    sink = world.new()
    before: list[Handle] = []
    for number in range(1, 12):
        now = [staged(sink, number)]
        assert sink.release([*before, *now], number) == {"rows": 2}
        assert world.bind().release([*before, *now], number) == {"rows": 2}
        before = now
    assert world.rows() == rows_of(*range(1, 12))
    assert sorted(world.released()) == list(range(10 - remembered, 12))
