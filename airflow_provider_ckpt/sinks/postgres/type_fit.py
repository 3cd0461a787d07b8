"""The types of PostgreSQL's columns that store values of Spark's types unchanged. No I/O."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.sinks.spark_types import (
    as_json,
    decimal_of,
    digits_of,
    fits_in_json,
    is_text,
    plain,
)

_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
_TIMESTAMP = re.compile(r"(timestamp|time)(?:\((\d)\))? (with|without) time zone")
_KEEP = {
    "boolean": ("boolean",),
    "byte": ("smallint", "integer", "bigint"),
    "short": ("smallint", "integer", "bigint"),
    "integer": ("integer", "bigint"),
    "long": ("bigint",),
    "float": ("real", "double precision"),
    "double": ("double precision",),
    "date": ("date",),
    "binary": ("bytea",),
}
_NOT_TEXT = re.compile(
    r"boolean|smallint|integer|bigint|real|double precision|numeric.*|date|bytea|oid|money|.*time zone|.*\[\]"
    # PostgreSQL silently cuts or rounds: at 63 bytes, at one byte, at the declared precision of the interval
    r'|name|"char"|interval .*|interval\([0-5]\)'
)
_LIMITED_TEXT = re.compile(r"character varying\((\d+)\)(?:\[\])?")
_MADE = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "binary": "bytea",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_ARROW = {
    "boolean": ("boolean", "bool"),
    "real": ("float", "float"),
    "double precision": ("double", "double"),
    "date": ("date", "date32[day]"),
    "bytea": ("binary", "binary"),
}
"""Column type -> the only (Spark type, Arrow type) that is sent to the column in PostgreSQL's binary form."""
_INTEGERS = {"smallint": "int16", "integer": "int32", "bigint": "int64"}
JSON = ("json", "jsonb")


def fits(kind: Any, column: str) -> bool:
    """Return True if the column stores each value of the type, and does not round, cut or shift any.

    ``column``: the type that ``format_type`` returns; for a domain its base type, for an enum ``enum``.
    """
    kind = plain(kind)
    if isinstance(kind, dict):
        if column in JSON:
            return fits_in_json(kind)
        return kind["type"] == "array" and column.endswith("[]") and fits_element(kind["elementType"], column[:-2])
    if kind in _KEEP and column in _KEEP[kind]:
        return True
    if kind in ("timestamp", "timestamp_ntz"):
        match = _TIMESTAMP.fullmatch(column)
        zone = "with" if kind == "timestamp" else "without"
        return match is not None and match[1] == "timestamp" and match[3] == zone and match[2] in (None, "6")
    if is_text(kind):
        return not _NOT_TEXT.fullmatch(column)
    return _is_wide_enough(kind, column)


def fits_element(kind: Any, column: str) -> bool:
    """Return True if an array of ``column`` stores elements of ``kind``. Arrays of any depth have one column type."""
    kind = plain(kind)
    if isinstance(kind, dict):
        return kind["type"] == "array" and fits_element(kind["elementType"], column)
    return fits(kind, column)


def _is_wide_enough(kind: str, column: str) -> bool:
    match, needed = _NUMERIC.fullmatch(column), digits_of(kind)
    if match is None or needed is None:
        return False
    digits, scale = needed
    return match[1] is None or (int(match[2]) >= scale and int(match[1]) - int(match[2]) >= digits - scale)


def column_type_for(kind: Any) -> str | None:
    """Return the type of a new column that stores values of Spark's type ``kind`` unchanged; None if none does."""
    kind = plain(kind)
    if isinstance(kind, dict):
        if kind["type"] == "array" and not isinstance(plain(kind["elementType"]), dict):
            element = column_type_for(kind["elementType"])
            return None if element is None else f"{element}[]"
        return "jsonb" if fits_in_json(kind) else None
    if is_text(kind):
        return "text"
    decimal = decimal_of(kind)
    return f"numeric({decimal[0]},{decimal[1]})" if decimal else _MADE.get(kind)


def text_expression(name: str, kind: Any, column: str) -> str:
    """Return the Spark expression that writes a column as text for PostgreSQL. Executors later write arrays as text."""
    kind = plain(kind)
    if isinstance(kind, dict) and column in JSON:
        return as_json(name)
    if kind == "binary":
        return f"concat(char(92), 'x', hex({quoted(name)})) AS {quoted(name)}"
    match = _LIMITED_TEXT.fullmatch(column)
    if match is not None:
        return f"{_mark_too_long(quoted(name), kind, match[1])} AS {quoted(name)}"
    return quoted(name)


def binary_expression(name: str, kind: Any, column: str) -> tuple[str, str] | None:
    """Return (Spark expression for PostgreSQL's binary form, its Arrow type); None if the column must be text.

    A column that is wider than Spark's type is filled by a cast that changes no value. For a decimal, the returned
    Arrow type has no digits.
    """
    if not isinstance(kind, str):  # also a user-defined type, which Spark cannot cast
        return None
    value = quoted(name)
    if column in _ARROW and kind == _ARROW[column][0]:
        return value, _ARROW[column][1]
    if _TIMESTAMP.fullmatch(column):
        return value, "timestamp[us]"
    if column in _INTEGERS:
        return f"CAST({value} AS {column}) AS {value}", _INTEGERS[column]
    if _NUMERIC.fullmatch(column) and decimal_of(kind) is not None:
        return value, "decimal128("
    if _NUMERIC.fullmatch(column) and (digits := digits_of(kind)) is not None:
        return f"CAST({value} AS DECIMAL({digits[0]},0)) AS {value}", "decimal128("
    is_plain = column in ("text", "character varying") or (
        _LIMITED_TEXT.fullmatch(column) and not column.endswith("[]")
    )
    return (text_expression(name, kind, column), "string") if is_plain and is_text(kind) else None


def _mark_too_long(value: str, kind: Any, max_length: str, depth: int = 0) -> str:
    """Return an expression that appends a dot to a too long value. PostgreSQL then refuses it, and cuts no blanks."""
    kind = plain(kind)
    if isinstance(kind, dict):
        element = f"e{depth}"
        return f"transform({value}, {element} -> {_mark_too_long(element, kind['elementType'], max_length, depth + 1)})"
    return f"CASE WHEN char_length({value}) > {max_length} THEN concat({value}, '.') ELSE {value} END"
