"""Checks that rows with given columns can be released to the SQL table as it is now. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_provider_ckpt.sinks.database.table_checks import (
    Columns,
    Problem,
    column_problems,
    nullable_key_problems,
)
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.target_table import SqlTable

_WHOLE_UNICODE = ("utf8mb4", "utf16", "utf16le", "utf32")


def problems(columns: Columns, table: SqlTable, dialect: Dialect, key: Collection[str]) -> Iterator[Problem]:
    """Yield what prevents releases to the table, the most serious first. ``key``: an upsert's key, else empty."""
    if table.refusal is not None:
        yield table.refusal, "Name a table that keeps rows"
        return
    yield from column_problems(columns, table.columns, dialect.fits, dialect.name)
    yield from _charset_problems(columns, table)
    if key:
        yield from nullable_key_problems(key, table.columns, "Make column {name} NOT NULL")
        yield from _key_problems(table, frozenset(key))
        if not dialect.names_key:
            yield from _guard_problems(table, frozenset(key))


def _charset_problems(columns: Columns, table: SqlTable) -> Iterator[Problem]:
    for name, _ in columns:
        charset = table.columns[name].charset
        if charset is not None and charset not in _WHOLE_UNICODE:
            problem = f"column {name!r} has the character set {charset}, which cannot hold every text"
            yield problem, f"ALTER TABLE … MODIFY {name} … CHARACTER SET utf8mb4"


def _key_problems(table: SqlTable, key: frozenset[str]) -> Iterator[Problem]:
    shown_key = ", ".join(sorted(key))
    if key not in table.uniques.values():
        yield (
            f"it has no unique index on ({shown_key}): not on a part of these columns, not on more, not for some rows, "
            "not two that compare in different ways",
            f"ALTER TABLE … ADD PRIMARY KEY ({shown_key}), or make a unique index on it",
        )


def _guard_problems(table: SqlTable, key: frozenset[str]) -> Iterator[Problem]:
    """Yield a problem if an upsert could replace a row of another key, because the key has only TIMESTAMP columns."""
    other_indexes = [name for name, columns in table.uniques.items() if columns != key]
    kinds = [table.columns[name].type for name in key if name in table.columns]
    if other_indexes and all(kind.startswith("timestamp") for kind in kinds):
        problem = (
            f"its key has only TIMESTAMP columns, and it has another unique index, {other_indexes[0]}: a row that "
            "meets that one would replace a row of another key"
        )
        yield problem, "Add another column to the key, or drop that index"
