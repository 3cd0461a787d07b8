from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.connections.connection import Connection, parse_connection
from airflow_provider_ckpt.connections.environment import hand_over, handed, read_connection, variable_of
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError

SECRET = "s3cr3t/@:%?#"
FULL = Connection("db", "postgres", "h", 5432, "me", SECRET, "shop", {"sslmode": "require"})


def test_the_json_and_uri_forms_give_the_same_connection() -> None:
    fields = {"conn_type": "postgresql", "host": "h", "port": 5432, "login": "me", "password": SECRET, "schema": "shop"}
    as_json = json.dumps({**fields, "extra": {"sslmode": "require"}})
    as_uri = "postgres://me:s3cr3t%2F%40%3A%25%3F%23@h:5432/shop?sslmode=require"
    assert parse_connection("db", as_json) == parse_connection("db", as_uri) == FULL


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@pytest.mark.airflow
@given(
    st.fixed_dictionaries(
        {
            "conn_type": st.sampled_from(["postgres", "mysql", "my_db"]),
            "host": st.sampled_from(["h", "db.example.org"]),
        },
        optional={
            "login": TEXTS,
            "password": TEXTS,
            "schema": TEXTS,
            "port": st.integers(1, 65535),
            "extra": st.dictionaries(st.sampled_from(["sslmode", "nested"]), TEXTS | st.integers(), min_size=1),
        },
    )
)
def test_connections_written_by_airflow_are_read_as_airflow_reads_them(fields: dict[str, Any]) -> None:
    from airflow.sdk import Connection as Airflows

    given = {**fields, "extra": json.dumps(fields["extra"])} if "extra" in fields else fields
    written = Airflows(conn_id="db", **given)
    for text in (written.as_json(), written.get_uri()):
        parsed = parse_connection("db", text)
        assert parsed == Connection("db", **{"conn_type": "", **fields})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{not json", "no JSON"),
        (SECRET, "neither a JSON object nor a URI"),
        (json.dumps({"host": "h", "password": SECRET}), "no type"),
        (json.dumps({"conn_type": "postgres", "password": SECRET, "extra": "{x"}), "extra cannot be read: no JSON"),
        (json.dumps({"conn_type": "postgres", "password": SECRET, "extra": [1]}), "extra is no JSON object"),
        (json.dumps({"conn_type": "postgres", "password": SECRET, "port": "x"}), "port is no number"),
        (json.dumps({"conn_type": "postgres", "password": [SECRET]}), "password is no text"),
        (f"postgres://me:{SECRET}@h:x/shop", "cannot be taken apart"),
        (
            '{"password": "s3cr3t", "port": ' + "9" * 5_000 + "}",
            "its text cannot be read: a number in it has more than 100",
        ),
        ('{"password": "s3cr3t", "extra": ' + "[" * 100_000 + "}", "its text cannot be read: it is nested deeper than"),
        ('{"conn_type": "postgres", "password": "s3cr3t\\ud800"}', "its text cannot be read: it is no text in UTF-8"),
        ('{"conn_type": "postgres", "password": "s3cr3t", "extra": "[\\"\\\\ud800\\"]"}', "its extra cannot be read"),
        ("postgres://me:s3cr3t\udcff@h/shop", "its text is not UTF-8"),
        (json.dumps({"conn_type": "postgres", "password": "s3cr3t", "port": "\u00b2"}), "its port is no number from 1"),
        (json.dumps({"conn_type": "postgres", "password": "s3cr3t", "port": 70_000}), "its port is no number from 1"),
    ],
)
def test_an_invalid_connection_text_is_refused_without_being_shown(text: str, problem: str) -> None:
    with pytest.raises(BadConnectionError, match=problem) as raised:
        parse_connection("db", text)
    shown = f"{raised.value} {raised.value.data} {raised.value.__context__} {raised.value.__cause__}"
    assert "s3cr3t" not in shown


def test_a_connection_hides_its_secrets() -> None:
    assert repr(FULL) == str(FULL) == "Connection('db', 'postgres')"
    assert FULL.redact(f"FATAL: {SECRET} is wrong") == "FATAL: *** is wrong"


def test_the_error_for_a_missing_connection_tells_the_remedy() -> None:
    assert variable_of("orders_db") == "AIRFLOW_CONN_ORDERS_DB"
    with pytest.raises(ConnectionMissingError, match=r"AIRFLOW_CONN_ORDERS_DB is not set.*conn_ids=\['orders_db'\]"):
        read_connection("orders_db", {})
    assert read_connection("db", {"AIRFLOW_CONN_DB": "postgres://h/x"}).schema == "x"


def test_passed_connections_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HANDED_DB", "postgres://environment/x")
    monkeypatch.setattr("airflow_provider_ckpt.connections.environment._IN_MEMORY", {})
    assert read_connection("handed_db").host == "environment"
    hand_over({"AIRFLOW_CONN_HANDED_DB": "postgres://memory/x"})
    assert read_connection("handed_db").host == "memory"


def test_connections_passed_in_two_threads_exist_only_in_their_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_ckpt.connections.environment._IN_MEMORY", {})
    first, second = (handed({f"AIRFLOW_CONN_{name}": f"postgres://{name}/x"}) for name in ("ONE", "TWO"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert read_connection("two").host == "TWO"
    second.__exit__(None, None, None)
    for name in ("one", "two"):
        with pytest.raises(ConnectionMissingError):
            read_connection(name)
