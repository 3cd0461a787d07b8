"""Whether rows of a schema can be released to a table as it is now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from airflow_provider_ckpt.sinks.database.table_checks import (
    Columns,
    Problem,
    column_problems,
    nullable_key_problems,
)
from airflow_provider_ckpt.sinks.sql.target_table import SqlTable

_WHOLE_UNICODE = ("utf8mb4", "utf16", "utf16le", "utf32")


def problems(
    columns: Columns, table: SqlTable, fits: Callable[[Any, str], bool], key: Collection[str], database: str
) -> Iterator[Problem]:
    """The gravest first. ``key``: of an upsert, else empty."""
    if table.refusal is not None:
        yield table.refusal, "Name a table that keeps rows"
        return
    yield from column_problems(columns, table.columns, fits, database)
    yield from _charset_problems(columns, table)
    if key:
        yield from nullable_key_problems(key, table.columns, "Make column {name} NOT NULL")
        yield from _key_problems(table, frozenset(key))


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
            f"it has no unique index on ({shown_key}): not on a part of these columns, not on more, not for some rows",
            f"ALTER TABLE … ADD PRIMARY KEY ({shown_key}), or make a unique index on it",
        )
    for name, found in table.uniques.items():
        if found != key:
            yield (
                f"it has another unique index, {name}: a row that meets that one would replace a row of another key",
                "Drop it, or make it an index that is not unique",
            )
