"""Whether rows of a schema can be released to a table as it is now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable
from airflow_provider_ckpt.sinks.postgres.type_fit import fits, shown

Columns = Sequence[tuple[str, Any]]
_NEEDED = {"append": ("SELECT", "INSERT"), "upsert": ("SELECT", "INSERT", "UPDATE")}
_NEEDED["replace"] = (*_NEEDED["append"], "DELETE")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


def problems(columns: Columns, table: TargetTable, mode: str, key: Collection[str]) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do), the gravest first. ``columns``: (name, type) as Spark's schema JSON has them."""
    if table.kind not in ("r", "p"):
        yield f"it is {_KINDS.get(table.kind, 'no table')}", "Name a table"
        return
    if not table.is_logged:
        yield "it is UNLOGGED or temporary, and a crash of the server empties it", "ALTER TABLE … SET LOGGED"
    lacking = [one for one in _NEEDED[mode] if one not in table.may]
    if lacking:
        yield f"the user of the connection lacks {', '.join(lacking)} on it", f"GRANT {', '.join(lacking)}"
    yield from _column_problems(columns, table)
    if mode == "upsert":
        yield from _key_problems(table, key)


def _column_problems(columns: Columns, table: TargetTable) -> Iterator[tuple[str, str]]:
    for name, kind in columns:
        column = table.columns.get(name)
        if column is None:
            has = ", ".join(table.columns)
            yield f"it has no column {name!r} (it has {has})", "Drop or rename the column of the job, or add it here"
        elif column.is_always:
            yield f"PostgreSQL itself gives column {name!r} its values", "Leave the column out of the job's rows"
        elif not fits(kind, column.type):
            problem = (
                f"column {name!r} is {shown(kind)} in the job and {column.type} in the table, which keeps not all of it"
            )
            yield problem, "Cast it in the job, or alter the table"
    given = {name for name, _ in columns}
    for name, column in table.columns.items():
        if name not in given and column.not_null and not column.is_given and not column.is_always:
            yield f"its column {name!r} is NOT NULL and has no default, and the job does not give it", "Select it, too"


def _key_problems(table: TargetTable, key: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in key:
        if name in table.columns and not table.columns[name].not_null:
            advice = f"ALTER TABLE … ALTER COLUMN {name} SET NOT NULL"
            yield f"column {name!r} of its key may be NULL, and such rows are never found again", advice
    if frozenset(key) not in table.keys:
        shown_key = ", ".join(key)
        yield (
            f"it has no unique constraint on ({shown_key}): not a part of one, not more, not a deferrable one",
            f"ALTER TABLE … ADD PRIMARY KEY ({shown_key})",
        )
