"""Explanations of PostgreSQL's refusals without values of rows, which the server's own messages and details contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from airflow_provider_ckpt.sinks.database.names import TableName

Read = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]
"""A function that returns the rows of a query of the catalog, and no rows if the query fails."""
_RAISED = "exec_stmt_raise"
"""The server's function that runs RAISE. Its message comes from the user, whatever the SQLSTATE is."""
_NO_PARTITION = "ExecFindPartition"
_NAME_CODES = ("42", "0A")
"""Classes of SQLSTATEs whose messages contain names but no values."""
_MEANINGS = {
    "23502": ("a column that is NOT NULL got no value", "Check the triggers and the defaults of the table"),
    "23503": (
        "a foreign key refuses it: a row refers to a row that is not there, or others refer to a row that is deleted",
        "Release the other table first (transaction=), or correct its rows",
    ),
    "23505": (
        "a row has the key of a row that is there, or of another row of the checkpoint",
        "Delete one of the two, or release with mode='upsert'",
    ),
    "23514": ("a row violates a CHECK", "Correct the rows (a function of the job), or the constraint"),
    "23P01": ("a row conflicts with a row that is there", "Delete one of the two"),
    "22003": (
        "a number is out of range for a column, a generated column or a trigger of the table",
        "Alter the table to a larger type, or correct the rows",
    ),
}
"""SQLSTATE -> (problem, advice)."""
_CONSTRAINT = """
SELECT coalesce(
  (SELECT pg_get_constraintdef(o.oid) FROM pg_catalog.pg_constraint o
   JOIN pg_catalog.pg_namespace n ON n.oid = o.connamespace
   WHERE n.nspname = %s AND o.conname = %s
     AND (o.contypid <> 0 OR o.conrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))) LIMIT 1),
  (SELECT pg_get_indexdef(to_regclass(format('%%I.%%I', %s::text, %s::text)))))
"""
_PARTITIONS = """
SELECT 'PARTITION BY ' || pg_get_partkeydef(c.oid) || ', partitions: '
  || coalesce((SELECT string_agg(relid::text, ', ' ORDER BY relid::text) FROM pg_partition_tree(c.oid)
     WHERE parentrelid = c.oid), 'none')
FROM pg_catalog.pg_class c WHERE c.oid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND c.relkind = 'p'
"""
_FUNCTIONS = """
SELECT p.prosrc FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgrelid IN (
  SELECT relid FROM pg_partition_tree(to_regclass(format('%%I.%%I', %s::text, %s::text)))
  UNION ALL SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)))
"""
_TEXT = re.compile(r"\bRAISE\s+(?:EXCEPTION\s+)?'((?:[^']|'')*)'", re.IGNORECASE)
_PLACE = re.compile(r"PL/pgSQL function (.+?\)) line (\d+)")


def codes(error: psycopg.Error) -> str:
    """Return an error's SQLSTATE, its name, and the names of constraint, column and table, as one text."""
    diag, parts = error.diag, [f"SQLSTATE {error.sqlstate}", type(error).__name__]
    if diag.source_function == _RAISED:
        return ", ".join(parts)
    for name in ("constraint_name", "column_name", "table_name"):
        value = getattr(diag, name)
        if value:
            parts.append(f"{name.partition('_')[0]} {value}")
    if (error.sqlstate or "").startswith(_NAME_CODES) and diag.message_primary:
        parts.append(diag.message_primary)
    return ", ".join(parts)


def explanation_of(sqlstate: str | None) -> tuple[str, str] | None:
    """Return (problem, advice) for an SQLSTATE; None if the error's codes explain enough."""
    return _MEANINGS.get(sqlstate or "")


def explain(error: psycopg.Error, table: TableName, read: Read) -> str:
    """Return one text: the problem, the constraint or function that refused the row, and advice.

    ``table``: the target.
    """
    diag = error.diag
    if diag.source_function == _RAISED:
        return _explain_raise(error, table, read)
    if diag.source_function == _NO_PARTITION:
        return _without_partition(error, read)
    detail = _function_line(error) if diag.constraint_name is None else _constraint(diag, read)
    problem, details = explanation_of(error.sqlstate), ", ".join(filter(None, (codes(error), detail)))
    return details if problem is None else f"{problem[0]} ({details}). {problem[1]}"


def _without_partition(error: psycopg.Error, read: Read) -> str:
    table = error.diag.table_name
    partitions = _first(read(_PARTITIONS, (error.diag.schema_name, table)))
    details = ", ".join(filter(None, (codes(error), partitions)))
    return f"no partition of {table} takes a row ({details}). Create it, or CREATE TABLE … PARTITION OF {table} DEFAULT"


def _constraint(diag: psycopg.errors.Diagnostic, read: Read) -> str:
    schema, name = diag.schema_name, diag.constraint_name
    return _first(read(_CONSTRAINT, (schema, name, schema, diag.table_name, schema, name)))


def _explain_raise(error: psycopg.Error, table: TableName, read: Read) -> str:
    """Return the problem as text, with the trigger's message only if it is a literal in the trigger's function."""
    names = (table.schema, table.name)
    sources = [source for (source,) in read(_FUNCTIONS, (*names, *names))]
    texts = {text.replace("''", "'").replace("%%", "%") for source in sources for text in _TEXT.findall(source)}
    details = ", ".join(filter(None, (codes(error), _function_line(error))))
    if error.diag.message_primary in texts:
        return f"a trigger refuses a row: {error.diag.message_primary} ({details})"
    return f"a trigger refuses a row ({details}). Its message may hold values of the row: the server's log has it"


def _function_line(error: psycopg.Error) -> str:
    match = _PLACE.search(error.diag.context or "")
    return "" if match is None else f"function {match[1]}, line {match[2]}"


def _first(rows: Iterable[tuple[Any, ...]]) -> str:
    return next((str(row[0]) for row in rows if row[0]), "")
