"""Explanations of MySQL's refusals without values of rows, which the server's own messages contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import TextClause, text

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.sql.inserting import code_of, error_text, name_in

Read = Callable[[TextClause, Mapping[str, Any]], list[Any]]
"""A function that returns the rows of a query of the catalog, and no rows if the query fails."""
_SIGNAL, _NO_PARTITION, _IS_NULL = 1644, 1526, 1048
_CHECK = ("a row violates a CHECK", "Correct the rows (a function of the job), or the constraint")
_FOREIGN_KEY = (
    "a foreign key refuses it: a row refers to a row that is not there, or others refer to a row that is deleted",
    "Release the other table first (transaction=), or correct its rows",
)
_MEANINGS = {
    167: (
        "the AUTO_INCREMENT column has no number left, because each row of an upsert takes one",
        "ALTER TABLE … MODIFY it to BIGINT",
    ),
    1062: (
        "a row has the key of a row that is there, or of another row of the checkpoint",
        "Delete one of the two, or release with mode='upsert'",
    ),
    1264: ("a value is out of range for a column", "Alter the column to a larger type, or correct the rows"),
    1451: _FOREIGN_KEY,
    1452: _FOREIGN_KEY,
    _NO_PARTITION: ("no partition takes a row", "ALTER TABLE … ADD PARTITION"),
    1690: (
        "a number is out of range in an expression of a generated column, a CHECK or a trigger of the table",
        "Alter the expression, or correct the rows",
    ),
    3819: _CHECK,
    4025: _CHECK,
}
"""Code -> (problem, advice)."""
_OTHER_KEY = (
    "a unique index that is not the key of the upsert refuses a row: a row of another key has its values",
    "Delete one of the two, or drop that index",
)
_INDEX = text(
    "SELECT concat('UNIQUE (', group_concat(column_name ORDER BY seq_in_index SEPARATOR ', '), ')') "
    "FROM information_schema.statistics WHERE table_schema = :s AND table_name = :n AND index_name = :name"
)
_FOREIGN = text(
    "SELECT concat('FOREIGN KEY (', group_concat(column_name ORDER BY ordinal_position SEPARATOR ', '), "
    "') REFERENCES ', max(referenced_table_name)) FROM information_schema.key_column_usage "
    "WHERE constraint_schema = :s AND constraint_name = :name AND referenced_table_name IS NOT NULL"
)
_CLAUSE = text(
    "SELECT concat('CHECK (', check_clause, ')') FROM information_schema.check_constraints "
    "WHERE constraint_schema = :s AND constraint_name = :name"
)
_PARTITIONS = text(
    "SELECT concat('PARTITION BY ', partition_method, ' (', partition_expression, ')'), "
    "concat(partition_name, coalesce(concat(' ', partition_description), '')) FROM information_schema.partitions "
    "WHERE table_schema = :s AND table_name = :n AND partition_name IS NOT NULL ORDER BY partition_ordinal_position"
)
_DEFINITIONS = {1062: _INDEX, 1451: _FOREIGN, 1452: _FOREIGN, 3819: _CLAUSE, 4025: _CLAUSE}
_OTHERS = text(
    "SELECT DISTINCT index_name FROM information_schema.statistics "
    "WHERE table_schema = :s AND table_name = :n AND non_unique = 0 ORDER BY index_name"
)
_TRIGGERS = text(
    "SELECT trigger_name, action_statement FROM information_schema.triggers "
    "WHERE event_object_schema = :s AND event_object_table = :n ORDER BY trigger_name"
)
_TEXT = re.compile(r"\bMESSAGE_TEXT\s*=\s*'((?:[^'\\]|'')*)'", re.IGNORECASE)


def explain(error: Any, table: TableName, key: Collection[str], read: Read) -> str:
    """Return one text: the problem, the index or constraint that refused the row, and advice.

    ``key``: the key of an upsert, else empty.
    """
    code, names = code_of(error), {"s": table.schema, "n": table.name}
    if code == _SIGNAL:
        return _explain_signal(error, read(_TRIGGERS, names))
    name = name_in(error)
    # the upsert assigns NULL to the column if it would replace a row of another key
    if code == _IS_NULL and name in key:
        indexes = ", ".join(str(row[0]) for row in read(_OTHERS, names))
        return f"{_OTHER_KEY[0]} (unique indexes: {indexes}). {_OTHER_KEY[1]}"
    details, meaning = error_text(error), _MEANINGS.get(code)
    if code == _NO_PARTITION:
        details += _partitions(read(_PARTITIONS, names))
    elif code in _DEFINITIONS and name:
        # MySQL puts the table's name before an index's name
        definitions = read(_DEFINITIONS[code], {**names, "name": name.rpartition(".")[2]})
        details += "".join(f", {row[0]}" for row in definitions if row[0])
    return details if meaning is None else f"{meaning[0]} ({details}). {meaning[1]}"


def _explain_signal(error: Any, triggers: list[Any]) -> str:
    """Return the problem as text. It includes the trigger's message only if the message is a literal in a trigger."""
    message, details = str(error.args[1]) if len(error.args) > 1 else "", error_text(error)
    names = ", ".join(str(name) for name, _ in triggers)
    for name, statement in triggers:
        if message in [literal.replace("''", "'") for literal in _TEXT.findall(statement or "")]:
            return f"the trigger {name} refuses a row: {message} ({details})"
    details += f", triggers of the table: {names}" if names else ""
    return f"a trigger refuses a row ({details}). Its message is not shown, because it may hold values of the row"


def _partitions(rows: list[Any]) -> str:
    """Return the table's partitions as text; empty if it has none. Partition limits are no values of rows."""
    names = [str(name) for _, name in rows]
    shown = names if len(names) < 5 else [*names[:2], "…", *names[-2:]]
    return f", {rows[0][0]}, partitions: {', '.join(shown)}" if rows else ""
