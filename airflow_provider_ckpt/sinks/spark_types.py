"""Properties of Spark's types, spelled as in Spark's schema JSON. No I/O."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ckpt.model.column_name import quoted

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Spark type -> number of digits of its largest value."""
_PLAIN = (*_INTEGERS, "boolean", "float", "double", "date", "binary", "timestamp", "timestamp_ntz")


def plain(kind: Any) -> Any:
    """Return the SQL type as which Spark writes a user-defined type; any other type unchanged."""
    while isinstance(kind, dict) and kind["type"] == "udt":
        kind = kind["sqlType"]
    return kind


def shown(kind: Any) -> str:
    kind = plain(kind)
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)


def is_text(kind: Any) -> bool:
    return isinstance(kind, str) and (kind.startswith(("char(", "varchar(")) or kind.partition(" ")[0] == "string")


def decimal_of(kind: Any) -> tuple[int, int] | None:
    """Return (precision, scale); None if the type is no decimal."""
    match = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return None if match is None else (int(match[1]), int(match[2]))


def digits_of(kind: Any) -> tuple[int, int] | None:
    """Return the number of (all digits, digits after the point) that a number type needs; None for other types."""
    if isinstance(kind, str) and kind in _INTEGERS:
        return _INTEGERS[kind], 0
    return decimal_of(kind)


def fits_in_json(kind: Any) -> bool:
    """Return True if Spark's ``to_json`` writes values of the type without loss."""
    kind = plain(kind)
    if not isinstance(kind, dict):
        return kind in _PLAIN or is_text(kind) or decimal_of(kind) is not None
    fields = kind["fields"] if kind["type"] == "struct" else []
    if len({field["name"] for field in fields}) < len(fields):
        return False  # readers and some databases keep only one of two equal names
    parts = [field["type"] for field in fields]
    parts += [kind[name] for name in ("elementType", "valueType") if name in kind]
    return all(map(fits_in_json, parts)) and ("keyType" not in kind or _is_key(plain(kind["keyType"])))


def digits_in(kind: Any) -> int:
    """Return the number of digits of the longest decimal in a type or its nested types; 0 if there is none."""
    kind = plain(kind)
    if not isinstance(kind, dict):
        decimal = decimal_of(kind)
        return 0 if decimal is None else decimal[0]
    parts = [field["type"] for field in kind["fields"]] if kind["type"] == "struct" else []
    parts += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return max(map(digits_in, parts), default=0)


def _is_key(kind: Any) -> bool:
    """Return True if the type can be a key of a map in JSON. Bytes, arrays and structs cannot."""
    return fits_in_json(kind) and not isinstance(kind, dict) and kind != "binary"


_INSTANT = "concat('yyyy-MM-dd', char(39), 'T', char(39), 'HH:mm:ss.SSSSSS{zone}')"
"""Spark expression for the format of instants. No setting of Spark's SQL parser changes what it means."""
_JSON = {
    "ignoreNullFields": "'false'",
    # by default Spark writes milliseconds, and an offset that is rounded to minutes
    "timeZone": "'UTC'",
    "timestampFormat": _INSTANT.format(zone="XXX"),
    "timestampNTZFormat": _INSTANT.format(zone=""),
}


def as_json(name: str) -> str:
    """Return the Spark expression that writes a column of arrays, maps or structs as text."""
    options = ", ".join(f"'{option}', {value}" for option, value in _JSON.items())
    return f"to_json({quoted(name)}, map({options})) AS {quoted(name)}"
