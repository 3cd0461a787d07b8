"""The types of SQLite's columns that keep values of Spark's types unchanged. Pure functions.

SQLite converts values by a column's affinity, which it derives from the words of the declared type.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.sinks.database.spark_types import decimal_of, fits_in_json, is_text, plain

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
"""Declared types with the affinity NUMERIC, which leaves such texts, 0 and 1 unchanged."""


def affinity(declared: str) -> str:
    """Return the affinity of a declared type, by section 3.1 of https://www.sqlite.org/datatype3.html."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(one in text for one in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    return "REAL" if any(one in text for one in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def fits(kind: Any, column: str) -> bool:
    """Return whether the column keeps each value of the type.

    Only a text column keeps a decimal, because SQLite's numbers have 15 digits.

    Args:
        kind: the type, spelled as in Spark's schema JSON.
        column: its declared type.
    """
    kind, found = plain(kind), affinity(column)
    if isinstance(kind, dict):
        return fits_in_json(kind) and (found == "TEXT" or column.upper() == "JSON")
    if is_text(kind) or decimal_of(kind) is not None:
        return found == "TEXT"
    return found == _AFFINITIES.get(kind) or column.upper() in _DECLARED.get(kind, ())


def made_for(kind: Any) -> str | None:
    """Return the type of a new column for such values; None if there is none."""
    kind = plain(kind)
    if isinstance(kind, dict):
        return "TEXT" if fits_in_json(kind) else None
    return "TEXT" if is_text(kind) or decimal_of(kind) is not None else _AFFINITIES.get(kind)
