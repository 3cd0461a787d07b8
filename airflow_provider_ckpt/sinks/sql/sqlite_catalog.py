"""Queries of the catalog of SQLite, about the library and about a table.

The catalog describes constraints and triggers only by their source texts, so these are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, collate, text

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import Problem
from airflow_provider_ckpt.sinks.sql.target_table import SqlColumn, SqlTable

_NO_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""", re.DOTALL
)
"""Pattern of comments, strings and quoted names."""
_EVENT = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
"""Pattern of the events of triggers. An unquoted name cannot be one of these words."""
_IGNORE = re.compile(r"\bRAISE\s*\(\s*IGNORE\b", re.IGNORECASE)
_SKIPS_CONFLICTS = re.compile(r"\bON\s+CONFLICT\s+(?:IGNORE|REPLACE)\b", re.IGNORECASE)


def skips_conflicts(table: str) -> bool:
    """Return True if a constraint in the CREATE TABLE ``table`` skips a conflicting row or replaces the old row."""
    return _SKIPS_CONFLICTS.search(_NO_WORDS.sub(" ", table)) is not None


def trigger_skips_rows(trigger: str) -> bool:
    """Return True if the trigger may skip a row that is inserted. A trigger of an UPDATE loses no row."""
    words = _NO_WORDS.sub(" ", trigger)
    event = _EVENT.search(words)
    return event is not None and event[0].upper() == "INSERT" and _IGNORE.search(words) is not None


_OLDEST = (3, 31)
"""The oldest version with ON CONFLICT, window functions and generated columns."""
_GENERATED = (2, 3)


class SQLiteCatalog:
    def server_problem(self, connection: Connection) -> str | None:
        version = tuple(connection.dialect.server_version_info or ())
        if version < _OLDEST:
            return f"its SQLite is {'.'.join(map(str, version))}; 3.31 is the oldest that the sink works with"
        return None

    def schema_problem(self, connection: Connection, schema: str) -> Problem | None:
        if schema == "main":
            return None
        problem = f"a file of SQLite has no schema {schema!r}, and a transaction over two files may be torn apart"
        return problem, "Write the table without a schema, and no staging_schema"

    def name_problem(self, connection: Connection, table: TableName) -> Problem | None:
        query = text("SELECT name FROM main.sqlite_master WHERE lower(name) = lower(:n) AND type IN ('table', 'view')")
        names = connection.execute(query, {"n": table.name}).scalars().all()
        if not names or table.name in names:
            return None
        return f"its file has a table {names[0]!r}, and ignores upper and lower case", "Write it like that"

    def sizes(self, connection: Connection, schema: str, names: Collection[str]) -> dict[str, int]:
        existing_tables = set(
            connection.execute(text("SELECT name FROM main.sqlite_master WHERE type = 'table'")).scalars()
        )
        page = int(connection.execute(text("PRAGMA page_size")).scalar_one())
        has_sizes = connection.execute(text("SELECT sqlite_compileoption_used('ENABLE_DBSTAT_VTAB')")).scalar_one()
        query = text("SELECT sum(pgsize) FROM dbstat WHERE name = :n" if has_sizes else "SELECT NULL WHERE :n = :n")
        existing = [name for name in names if name in existing_tables]
        return {name: int(connection.execute(query, {"n": name}).scalar() or page) for name in existing}

    def unsafe_tables(self, connection: Connection, schema: str, names: Collection[str]) -> list[str]:
        return []

    def compared_key(
        self, connection: Connection, name: TableName, staging: Table, key: Sequence[str]
    ) -> list[ColumnElement[Any]]:
        """Return the key columns with the collations of the target's index. A staging table has no collations."""
        indexes = _indexes(connection, name.name).values()
        collations = next((index for index in indexes if index.keys() == set(key)), {})
        return [
            collate(staging.c[column], collations[column]) if column in collations else staging.c[column]
            for column in key
        ]

    def may_skip_rows(self, connection: Connection, name: TableName) -> bool:
        query = text("SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(:n)")
        return any(map(trigger_skips_rows, connection.execute(query, {"n": name.name}).scalars()))

    def skips_conflicts(self, connection: Connection, name: TableName) -> bool:
        query = text("SELECT sql FROM main.sqlite_master WHERE type = 'table' AND lower(name) = lower(:n)")
        return any(map(skips_conflicts, connection.execute(query, {"n": name.name}).scalars()))

    def read_table(self, connection: Connection, name: TableName) -> SqlTable | None:
        query = text("SELECT type, sql FROM main.sqlite_master WHERE name = :n AND type IN ('table', 'view')")
        entry = connection.execute(query, {"n": name.name}).one_or_none()
        if entry is None:
            return None
        refusal = None if entry[0] == "table" else "it is a view"
        if refusal is None and str(entry[1]).upper().startswith("CREATE VIRTUAL"):
            refusal = "it is a virtual table"
        rows = _pragma(connection, "table_xinfo", name.name)
        keys = [row for row in rows if row[5]]
        is_rowid = len(keys) == 1 and str(keys[0][2]).upper() == "INTEGER"
        columns = {row[1]: _column(row, is_rowid=is_rowid and bool(row[5])) for row in rows if row[6] != 1}
        return SqlTable(refusal, columns, _uniques(connection, name.name, [row[1] for row in keys] if is_rowid else []))


def _uniques(connection: Connection, table: str, rowid: list[str]) -> dict[str, frozenset[str]]:
    uniques = {"PRIMARY KEY": frozenset(rowid)} if rowid else {}
    compared: dict[frozenset[str], dict[str, str]] = {}
    ambiguous = set[frozenset[str]]()
    for index, collations in _indexes(connection, table).items():
        uniques[index] = names = frozenset(collations)
        if compared.setdefault(names, collations) != collations:
            ambiguous.add(names)  # the two indexes compare texts differently, and ON CONFLICT may use either
    return {index: frozenset() if names in ambiguous else names for index, names in uniques.items()}


def _indexes(connection: Connection, table: str) -> dict[str, dict[str, str]]:
    """Return unique index -> (column -> collation). An index on an expression or on some rows has an empty dict."""
    indexes = {}
    for _, index, is_unique, _, is_partial in _pragma(connection, "index_list", table):
        if is_unique:
            columns = {row[2]: row[4] for row in _pragma(connection, "index_xinfo", index) if row[5]}
            indexes[index] = {} if is_partial or None in columns else columns
    return indexes


def _column(row: Any, *, is_rowid: bool) -> SqlColumn:
    """Return a column's properties. The rowid's column counts as NOT NULL: SQLite replaces a NULL by a number."""
    return SqlColumn(
        type=row[2],
        not_null=bool(row[3]) or is_rowid,
        has_default=row[4] is not None or is_rowid,
        is_computed=row[6] in _GENERATED,
        definition=row[2],
    )


def _pragma(connection: Connection, name: str, table: str) -> list[Any]:
    return list(connection.execute(text(f"SELECT * FROM pragma_{name}(:n)"), {"n": table}))
