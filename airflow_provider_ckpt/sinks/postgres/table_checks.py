"""Checks of the PostgreSQL target as it is now, and of the database user's rights on the sink's schema and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from airflow_provider_ckpt.sinks.database.table_checks import (
    Columns,
    Problem,
    column_problems,
    nullable_key_problems,
    rights_needed,
)
from airflow_provider_ckpt.sinks.postgres.database import Connection
from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable
from airflow_provider_ckpt.sinks.postgres.type_fit import fits

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


def problems(columns: Columns, table: TargetTable, mode: str, key: Collection[str]) -> Iterator[Problem]:
    """Yield the problems that prevent releases to the table, the most serious first."""
    if table.kind not in ("r", "p"):
        yield f"it is {_KINDS.get(table.kind, 'no table')}", "Name a table"
        return
    if not table.is_logged:
        problem = "it, or a partition of it, is UNLOGGED or temporary, and a crash of the server empties it"
        yield problem, "ALTER TABLE … SET LOGGED"
    if table.has_foreign_partition:
        problem = "a partition of it is a foreign table, and no transaction commits here and there at once"
        yield problem, "Name a table whose partitions are all of this server"
    if table.hides_rows and mode == "replace":
        problem = (
            "its row-level security may hide rows from the user of the connection, and those would not be replaced"
        )
        yield problem, "ALTER ROLE … BYPASSRLS, or connect as the owner of the table"
    lacking = [right for right in rights_needed(mode) if right not in table.privileges]
    if lacking:
        yield f"the user of the connection lacks {', '.join(lacking)} on it", f"GRANT {', '.join(lacking)}"
    yield from _rule_problems(table, mode)
    yield from column_problems(columns, table.columns, fits, "PostgreSQL")
    if mode == "upsert":
        yield from _key_problems(table, key)


def _rule_problems(table: TargetTable, mode: str) -> Iterator[Problem]:
    for rule in table.rules:
        drop = f"DROP RULE {rule.name}, and use a trigger instead"
        if mode == "upsert" and rule.event != "DELETE":
            yield f"PostgreSQL refuses an upsert, because the table has the rule {rule.name} on {rule.event}", drop
        elif rule.is_instead and rule.event == "INSERT":
            yield f"its rule {rule.name} (ON INSERT DO INSTEAD) keeps rows out of the table", drop
        elif rule.is_instead and rule.event == "DELETE" and mode == "replace":
            yield f"its rule {rule.name} (ON DELETE DO INSTEAD) keeps the rows that the release must replace", drop


def _key_problems(table: TargetTable, key: Collection[str]) -> Iterator[Problem]:
    yield from nullable_key_problems(key, table.columns, "ALTER TABLE … ALTER COLUMN {name} SET NOT NULL")
    if frozenset(key) not in table.keys:
        shown_key = ", ".join(key)
        yield (
            f"it has no unique constraint on ({shown_key}): not a part of one, not more, not a deferrable one",
            f"ALTER TABLE … ADD PRIMARY KEY ({shown_key})",
        )


_ON_LEDGER = {
    "format": ("SELECT",),
    "ledger": ("SELECT", "INSERT", "UPDATE"),
    "released": ("SELECT", "INSERT", "DELETE"),
    "staged": ("SELECT", "INSERT", "DELETE"),
}


def lacking_on_schema(connection: Connection, schema: str) -> list[str] | None:
    """Return which of the rights CREATE and USAGE the database user lacks; None if the schema does not exist.

    Each right needs its own query, because a query for several returns True if the user has *one* of them.
    """
    query = (
        "SELECT has_schema_privilege(oid, 'CREATE'), has_schema_privilege(oid, 'USAGE') "
        "FROM pg_catalog.pg_namespace WHERE nspname = %s"
    )
    flags = connection.execute(query, (schema,)).fetchone()
    if flags is None:
        return None
    return [right for right, has in zip(("CREATE", "USAGE"), flags, strict=True) if not has]


def lacking_on_ledger(connection: Connection, schema: str) -> Iterator[tuple[str, str]]:
    """Yield (table, lacking rights) for the existing tables of the ledger, which another user may have created."""
    for table, needed in _ON_LEDGER.items():
        lacking = _lacking(connection, schema, table, needed)
        if lacking:
            yield table, ", ".join(lacking)


def _lacking(connection: Connection, schema: str, table: str, needed: Sequence[str]) -> list[str]:
    query = (
        "SELECT needed FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace, "
        "unnest(%s::text[]) AS needed "
        "WHERE nspname = %s AND relname = %s AND NOT has_table_privilege(c.oid, needed)"
    )
    return [row[0] for row in connection.execute(query, (list(needed), schema, table))]
