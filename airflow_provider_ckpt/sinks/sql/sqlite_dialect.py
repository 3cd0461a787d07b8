"""The dialect of SQLite, for a database file on this machine, and its column types.

A column must keep the values of a Spark type unchanged. SQLite converts values by a column's affinity, which it derives
from the words of the declared type.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import Insert

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.spark_types import decimal_of, fits_in_json, is_text, plain
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.inserting import error_text
from airflow_provider_ckpt.sinks.sql.sqlite_catalog import SQLiteCatalog
from airflow_provider_ckpt.sinks.sql.target_table import TriggerWrites

_AFFINITIES = {
    "boolean": "INTEGER",
    "byte": "INTEGER",
    "short": "INTEGER",
    "integer": "INTEGER",
    "long": "INTEGER",
    "float": "REAL",
    "double": "REAL",
    "date": "TEXT",
    "timestamp": "TEXT",
    "timestamp_ntz": "TEXT",
    "binary": "BLOB",
}
_DECLARED = {
    "boolean": ("BOOLEAN", "BOOL"),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP", "DATETIME"),
    "timestamp_ntz": ("TIMESTAMP", "DATETIME"),
}
"""Spark type -> declared types that fit although their affinity is NUMERIC, which keeps texts of dates, 0 and 1."""


def affinity(declared: str) -> str:
    """Return the affinity of a declared type, by section 3.1 of https://www.sqlite.org/datatype3.html."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(part in text for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    return "REAL" if any(part in text for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def fits(kind: Any, column: str) -> bool:
    """Return True if a column of a declared type stores each value of the Spark type.

    A decimal needs a text column, because SQLite's numbers have 15 digits.
    """
    kind, column_affinity = plain(kind), affinity(column)
    if isinstance(kind, dict):
        return fits_in_json(kind) and (column_affinity == "TEXT" or column.upper() == "JSON")
    if is_text(kind) or decimal_of(kind) is not None:
        return column_affinity == "TEXT"
    return column_affinity == _AFFINITIES.get(kind) or column.upper() in _DECLARED.get(kind, ())


def column_type_for(kind: Any) -> str | None:
    """Return the type of a new column that stores values of Spark's type ``kind`` unchanged; None if none does."""
    kind = plain(kind)
    if isinstance(kind, dict):
        return "TEXT" if fits_in_json(kind) else None
    return "TEXT" if is_text(kind) or decimal_of(kind) is not None else _AFFINITIES.get(kind)


_BUSY = 30.0
"""Maximum time that a session waits for a lock, in seconds. Only one session writes at a time."""


class RollbackOnClose(sqlite3.Connection):
    """A connection that rolls back before it closes.

    An exception's traceback may keep a cursor alive. Without the rollback, the closed connection would hold its lock
    until the cursor is collected.
    """

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.rollback()
        super().close()


class SQLiteDialect(SQLiteCatalog, Dialect):
    name = "SQLite"
    url = "sqlite://"
    ddl_commits = False
    triggers_skip_rows = True
    names_key = True

    def connect_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of ``sqlite3.connect``. With them an absent file is an error, and is not created."""
        uri = f"file:{quote(parameters['path'])}?mode=rw"
        return {"database": uri, "uri": True, "timeout": _BUSY, "isolation_level": None, "check_same_thread": False}

    def connect(self, **parameters: Any) -> Any:
        return sqlite3.connect(**parameters, factory=RollbackOnClose)

    def absence(self, parameters: Mapping[str, Any]) -> str | None:
        path = Path(parameters["path"])
        if path.is_file():
            return None
        if path.exists():
            return f"{path} is no file; give the path of a file"
        command = f"touch {shlex.quote(str(path))}"
        command = command if path.parent.is_dir() else f"mkdir -p {shlex.quote(str(path.parent))} && {command}"
        return f"there is no file {path}, and the sink makes none. Correct its path, or make an empty file: `{command}`"

    def open_connection(self, connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        return connect(**parameters)

    def session_statements(self) -> Sequence[str]:
        return "PRAGMA synchronous = EXTRA", "PRAGMA foreign_keys = ON"

    def configure_transactions(self, engine: Engine) -> None:
        """Make each transaction lock the file before its first read. No other session can then write until it ends."""
        event.listen(engine, "begin", _begin)

    def is_transient(self, code: int, *, is_connected: bool) -> bool:
        return code == 5

    def trigger_writes(self, connection: Connection, name: TableName, events: Collection[str]) -> TriggerWrites:
        """Return no tables. A trigger writes only to its own file, and the transaction covers the whole file."""
        return TriggerWrites()

    def explain(self, error: Any, table: TableName, key: Collection[str], read: Any) -> str:
        """Return the error's text. SQLite's messages contain names and texts of triggers, but no values."""
        return error_text(error)

    def lacking_rights(
        self, connection: Connection, table: Table, columns: Sequence[str], needed: Collection[str]
    ) -> Iterator[str]:
        yield from ()

    def lacking_to_stage(self, connection: Connection, name: TableName) -> Iterator[str]:
        yield from ()

    def fits(self, kind: Any, column: str) -> bool:
        return fits(kind, column)

    def column_type_for(self, connection: Connection, kind: Any, *, is_key: bool) -> str | None:
        return column_type_for(kind)

    def insert(self, table: Table) -> Insert:
        return sqlite.insert(table)

    def failing_on_conflict(self, insert: Insert) -> Insert:
        """Return an insert with OR ABORT, which also overrides the conflict clauses in triggers (INSERT OR IGNORE)."""
        return insert.prefix_with("OR ABORT")

    def insert_absent(self, table: Table, values: Mapping[str, Any]) -> Insert:
        return sqlite.insert(table).values(values).on_conflict_do_nothing()

    def insert_text(self, table: Table) -> str:
        quote = sqlite.dialect().identifier_preparer
        names = ", ".join(quote.quote(column.name) for column in table.columns)
        places = ", ".join("?" for _ in table.columns)
        return f"INSERT INTO {quote.format_table(table)} ({names}) VALUES ({places})"

    def upsert(self, table: Table, columns: Sequence[str], rows: Any, key: Sequence[str], guard: str | None) -> Insert:
        insert = sqlite.insert(table).from_select(list(columns), rows)
        changed = {name: insert.excluded[name] for name in columns if name not in key}
        if not changed:
            return insert.on_conflict_do_nothing(index_elements=list(key))
        return insert.on_conflict_do_update(index_elements=list(key), set_=changed)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
