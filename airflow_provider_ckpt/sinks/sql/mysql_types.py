"""The types of MySQL's columns that store values of Spark's types unchanged. No I/O."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ckpt.sinks.spark_types import (
    decimal_of,
    digits_in,
    digits_of,
    fits_in_json,
    is_text,
    plain,
)

_TYPE = re.compile(r"([a-z]+)(?:\(([^)]*)\))?(.*)", re.DOTALL)
_KEEP = {
    "boolean": ("tinyint",),
    "byte": ("tinyint", "smallint", "mediumint", "int", "bigint"),
    "short": ("smallint", "mediumint", "int", "bigint"),
    "integer": ("int", "bigint"),
    "long": ("bigint",),
    "date": ("date",),
    "binary": ("varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
}
_FLOATS = {"float": ("float", "double"), "double": ("double",)}
_INSTANTS = {"timestamp": "timestamp", "timestamp_ntz": "datetime"}
"""Spark type -> column type. A DATETIME has no zone, so an instant in it would depend on the reader's zone."""
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext", "json")
_MADE = {
    "boolean": "tinyint(1)",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp(6)",
    "timestamp_ntz": "datetime(6)",
}
_MAX_SCALE = 30
_JSON_DIGITS = 15
"""Maximum number of digits of a decimal in MySQL's JSON, which stores a double. MariaDB's JSON is a LONGTEXT."""
NOT_NULL_TIMESTAMP = "timestamp(6) DEFAULT current_timestamp(6)"
"""The type of a TIMESTAMP column with an explicit default.

With ``explicit_defaults_for_timestamp=OFF``, older servers set a table's first TIMESTAMP without a default to the
current time at each update. They set the second such column to zero, which a strict session refuses.
"""


def fits(kind: Any, column: str) -> bool:
    """Return True if the column stores each value of the type, and does not round, cut or shift any.

    An unsigned column does not fit, because all of Spark's numbers have a sign. ``column``: the catalog's
    ``COLUMN_TYPE``.
    """
    kind, match = plain(kind), _TYPE.fullmatch(column)
    if match is None or "unsigned" in match[3] or "zerofill" in match[3]:
        return False
    base, size = match[1], match[2]
    if isinstance(kind, dict):
        return fits_in_json(kind) and (base == "longtext" or (base == "json" and digits_in(kind) <= _JSON_DIGITS))
    if base in _KEEP.get(kind, ()):
        return True
    if kind in _FLOATS:
        return base in _FLOATS[kind] and size is None  # DOUBLE(10,2) rounds
    if kind in _INSTANTS:
        return base == _INSTANTS[kind] and size == "6"
    if is_text(kind):
        return base in _TEXTS or (base == "char" and kind.startswith("char("))  # CHAR removes trailing blanks
    return _is_wide_enough(kind, base, size)


def _is_wide_enough(kind: str, base: str, size: str | None) -> bool:
    needed = digits_of(kind)
    if needed is None or base != "decimal" or size is None:
        return False
    digits, scale = (int(number) for number in size.split(","))
    return scale >= needed[1] and digits - scale >= needed[0] - needed[1]


def column_type_for(kind: Any, collation: str, *, is_key: bool) -> str | None:
    """Return the type of a new column that stores values of Spark's type ``kind`` unchanged; None if none does."""
    kind = plain(kind)
    if isinstance(kind, dict):
        if is_key or not fits_in_json(kind):
            return None
        text = f"longtext CHARACTER SET utf8mb4 COLLATE {collation}"
        return "json" if digits_in(kind) <= _JSON_DIGITS else text
    if is_text(kind):
        return f"{'varchar(255)' if is_key else 'longtext'} CHARACTER SET utf8mb4 COLLATE {collation}"
    if kind == "binary":
        return "varbinary(255)" if is_key else "longblob"
    if kind == "timestamp" and is_key:
        return NOT_NULL_TIMESTAMP
    decimal = decimal_of(kind)
    if decimal is not None:
        return f"decimal({decimal[0]},{decimal[1]})" if decimal[1] <= _MAX_SCALE else None
    return _MADE.get(kind)
