"""Which column of SQLite keeps the values of which Spark type, so that each reads back as it was. Pure.

SQLite converts by a column's affinity, which it finds in the words of its declared type."""

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
"""Their affinity is NUMERIC, which leaves such texts, and 0 and 1, as they are."""


def affinity(declared: str) -> str:
    """https://www.sqlite.org/datatype3.html, 3.1."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(one in text for one in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    return "REAL" if any(one in text for one in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def fits(kind: Any, column: str) -> bool:
    """``kind``: as Spark's schema JSON has it; ``column``: its declared type. A decimal is kept by a column of text
    only: a number of SQLite has 15 digits."""
    kind, found = plain(kind), affinity(column)
    if isinstance(kind, dict):
        return fits_in_json(kind) and (found == "TEXT" or column.upper() == "JSON")
    if is_text(kind) or decimal_of(kind) is not None:
        return found == "TEXT"
    return found == _AFFINITIES.get(kind) or column.upper() in _DECLARED.get(kind, ())


def made_for(kind: Any) -> str | None:
    """The type of a column that is made for such values; None if there is none."""
    kind = plain(kind)
    if isinstance(kind, dict):
        return "TEXT" if fits_in_json(kind) else None
    return "TEXT" if is_text(kind) or decimal_of(kind) is not None else _AFFINITIES.get(kind)
