"""The rights that the user of a connection lacks on the sink's own schema and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

_ON_LEDGER = {
    "format": ("SELECT",),
    "ledger": ("SELECT", "INSERT", "UPDATE"),
    "released": ("SELECT", "INSERT", "DELETE"),
    "staged": ("SELECT", "INSERT", "DELETE"),
}
Connection = psycopg.Connection[Any]


def lacking_on_schema(connection: Connection, schema: str) -> list[str] | None:
    """Return which of CREATE and USAGE the user lacks; None if there is no such schema.

    Each right is queried alone. For several at once PostgreSQL returns whether the user has *one* of them.
    """
    asked = (
        "SELECT has_schema_privilege(oid, 'CREATE'), has_schema_privilege(oid, 'USAGE') "
        "FROM pg_catalog.pg_namespace WHERE nspname = %s"
    )
    found = connection.execute(asked, (schema,)).fetchone()
    if found is None:
        return None
    return [right for right, has in zip(("CREATE", "USAGE"), found, strict=True) if not has]


def lacking_on_ledger(connection: Connection, schema: str) -> Iterator[tuple[str, str]]:
    """Yield the existing ledger tables with lacking rights, and these rights. Another user may have made the tables."""
    for table, needed in _ON_LEDGER.items():
        lacking = _lacking(connection, schema, table, needed)
        if lacking:
            yield table, ", ".join(lacking)


def _lacking(connection: Connection, schema: str, table: str, needed: Sequence[str]) -> list[str]:
    asked = (
        "SELECT needed FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace, "
        "unnest(%s::text[]) AS needed "
        "WHERE nspname = %s AND relname = %s AND NOT has_table_privilege(c.oid, needed)"
    )
    return [row[0] for row in connection.execute(asked, (list(needed), schema, table))]
