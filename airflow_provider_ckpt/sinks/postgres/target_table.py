"""The description of the target table, read from the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import TargetColumn

_TABLE = """
SELECT c.oid, c.relkind::text, row_security_active(c.oid), (
    SELECT coalesce(bool_and(p.relpersistence = 'p'), c.relpersistence = 'p')
    FROM pg_catalog.pg_partition_tree(c.oid) JOIN pg_catalog.pg_class p ON p.oid = relid
  ), EXISTS (
    SELECT FROM pg_catalog.pg_partition_tree(c.oid) JOIN pg_catalog.pg_class p ON p.oid = relid WHERE p.relkind = 'f'
  ), has_table_privilege(c.oid, 'SELECT'),
  has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS = """
WITH RECURSIVE made(attnum, type, typmod, array_of) AS (
  SELECT attnum, atttypid, atttypmod, ''
  FROM pg_catalog.pg_attribute WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT made.attnum, CASE WHEN d.typtype = 'd' THEN d.typbasetype ELSE e.oid END,
    CASE WHEN d.typtype = 'd' THEN d.typtypmod ELSE -1 END,
    CASE WHEN d.typtype = 'd' THEN array_of ELSE '[]' END
  FROM made JOIN pg_catalog.pg_type d ON d.oid = made.type
  LEFT JOIN pg_catalog.pg_type e ON e.oid = d.typelem AND d.typcategory = 'A' AND e.typtype = 'd'
  WHERE d.typtype = 'd' OR e.oid IS NOT NULL
)
SELECT a.attname::text, (
    SELECT CASE WHEN b.typtype = 'e' THEN 'enum' ELSE pg_catalog.format_type(b.oid, m.typmod) END || m.array_of
    FROM made m JOIN pg_catalog.pg_type b ON b.oid = m.type
    LEFT JOIN pg_catalog.pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
    WHERE m.attnum = a.attnum AND b.typtype <> 'd' AND e.typtype IS DISTINCT FROM 'd'
  ), a.attnotnull OR EXISTS (
    SELECT FROM made m JOIN pg_catalog.pg_type d ON d.oid = m.type
    WHERE m.attnum = a.attnum AND m.array_of = '' AND d.typnotnull
  ), a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
  a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %(table)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
"""Query of a table's columns. A domain is resolved to its base type, also through other domains and inside arrays."""
_KEYS = """
SELECT array_agg(a.attname::text), i.indimmediate AND NOT bool_or(EXISTS (
  SELECT FROM pg_catalog.pg_collation c
  CROSS JOIN (SELECT i.indcollation[array_position(i.indkey::int2[], a.attnum)] AS of_index) one
  WHERE one.of_index <> a.attcollation AND c.oid IN (one.of_index, a.attcollation) AND NOT c.collisdeterministic
))
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indimmediate
"""
"""Query of (columns, True if ON CONFLICT may use the index) of each unique index.

ON CONFLICT uses all unique indexes on its columns. An index that is checked only at the end of the transaction is
unfit. An index is also unfit if its collation may treat texts as equal that the column's collation distinguishes,
because a release removes duplicate keys by the column's collation. Two deterministic collations never differ in that:
equal texts are equal bytes. The arrays ``indkey`` and ``indcollation`` count from 0.
"""

_RULES = """
SELECT rulename::text, CASE ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END, is_instead
FROM pg_catalog.pg_rewrite
WHERE ev_class = %s AND ev_type IN ('2', '3', '4') AND (ev_enabled IN ('O', 'A') OR ev_type = '2') ORDER BY rulename
"""
"""Query of a table's rules. A disabled rule on UPDATE counts, too, because PostgreSQL refuses ON CONFLICT for it."""


@dataclass(frozen=True)
class Rule:
    """A table's rule. ``event``: INSERT, UPDATE or DELETE. ``is_instead``: True if the rule replaces the statement."""

    name: str
    event: str
    is_instead: bool


@dataclass(frozen=True)
class TargetTable:
    """The properties of the target table, from the catalog.

    Args:
        kind: ``relkind`` of the catalog: ``r`` or ``p`` for a table.
        hides_rows: True if row-level security may hide rows from the user of the connection.
        is_logged: True if the table, with all partitions, survives a crash of the server.
        has_foreign_partition: True if a partition is on another server.
        keys: sets of columns by which ON CONFLICT finds a row.
    """

    kind: str
    hides_rows: bool
    is_logged: bool
    has_foreign_partition: bool
    privileges: frozenset[str]
    columns: dict[str, TargetColumn]
    keys: frozenset[frozenset[str]]
    rules: tuple[Rule, ...] = ()


def types_of(connection: psycopg.Connection[Any], name: TableName) -> dict[str, str]:
    """Return column -> type of an existing table."""
    [[oid]] = connection.execute(
        "SELECT format('%%I.%%I', %s::text, %s::text)::regclass::oid", (name.schema, name.name)
    )
    return {row[0]: row[1] for row in connection.execute(_COLUMNS, {"table": oid})}


def read_table(connection: psycopg.Connection[Any], name: TableName) -> TargetTable | None:
    """Return the table as the catalog describes it; None if it does not exist."""
    row = connection.execute(_TABLE, (name.schema, name.name)).fetchone()
    if row is None:
        return None
    oid, kind, hides_rows, is_logged, has_foreign_partition, *may_use = row
    columns = {row[0]: TargetColumn(*row[1:]) for row in connection.execute(_COLUMNS, {"table": oid})}
    keys, unusable = set[frozenset[str]](), set[frozenset[str]]()
    for names, is_fit in connection.execute(_KEYS, (oid,)):
        (keys if is_fit else unusable).add(frozenset(names))
    rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
    allowed = frozenset(right for right, is_allowed in zip(rights, may_use, strict=True) if is_allowed)
    rules = tuple(Rule(*row) for row in connection.execute(_RULES, (oid,)))
    return TargetTable(
        kind, hides_rows, is_logged, has_foreign_partition, allowed, columns, frozenset(keys - unusable), rules
    )
