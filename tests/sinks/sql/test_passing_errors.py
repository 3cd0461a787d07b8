"""Transient errors of SQLite, recognized by their number or, without one, by SQLite's message."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, RowsRefusedError
from airflow_provider_ckpt.sinks.sql.inserting import code_of
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import staged

PASSING, FATAL = 5, 1


class OldError(sqlite3.OperationalError):
    """Error of Python before 3.11, which carries no number."""


OldError.__module__, OldError.__name__ = "sqlite3", "OperationalError"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("database is locked", PASSING),
        ("database table is locked: orders", PASSING),
        ("disk I/O error", PASSING),
        ("database or disk is full", PASSING),
        ("unable to open database file", PASSING),
        ("no such table: disks", FATAL),
        ("no such column: locked", FATAL),
        ('near "busy": syntax error', FATAL),
        ("database disk image is malformed", FATAL),
    ],
)
def test_an_sqlite_error_without_a_number_is_classified_by_its_message(text: str, code: int) -> None:
    assert code_of(OldError(text)) == code


def failing(connection: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement)
    return raised.value


def test_an_sqlite_error_is_classified_by_its_number(lite: SQLiteWorld) -> None:
    lite.table("id int NOT NULL PRIMARY KEY, city text", "disks")
    lite.run("INSERT INTO disks VALUES (1, 'a')")
    with sqlite3.connect(lite.path, isolation_level=None, timeout=0) as connection:
        assert code_of(failing(connection, "INSERT INTO disks VALUES (1, 'locked')")) == FATAL
        assert code_of(failing(connection, "SELECT locked FROM disks")) == FATAL
        other: Any = lite.open()
        other.execute("BEGIN IMMEDIATE")
        assert code_of(failing(connection, "BEGIN IMMEDIATE")) == PASSING
        other.close()
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect("file:/no/such/file.db?mode=rw", uri=True)
    assert code_of(raised.value) == PASSING


@pytest.mark.parametrize("name", ["disks", "unlocked_doors"])
def test_a_violated_constraint_is_permanent_whatever_the_tables_name_is(lite: SQLiteWorld, name: str) -> None:
    lite.table("id int NOT NULL PRIMARY KEY, city text", name)
    lite.run(f"INSERT INTO {name} VALUES (10, 'there')")
    sink = lite.new(table=name)
    handle = staged(sink, 1)
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and"):
        sink.release([handle], 1)


def test_a_violated_check_is_permanent_whatever_its_name_is(lite: SQLiteWorld) -> None:
    lite.table("id int NOT NULL, city text, CONSTRAINT locked_city CHECK (city <> 'city 10')")
    sink = lite.new()
    handle = staged(sink, 1)
    with pytest.raises((ReleaseRefusedError, RowsRefusedError)):
        sink.release([handle], 1)
