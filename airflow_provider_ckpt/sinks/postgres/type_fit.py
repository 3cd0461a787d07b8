"""Which column of PostgreSQL keeps the values of which Spark type, so that each reads back as it was. Pure."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ckpt.sinks.database.spark_types import (
    as_json,
    decimal_of,
    digits_of,
    fits_in_json,
    is_text,
    plain,
    quoted,
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
    # cut, or rounded, without a word: at 63 bytes, at one, at what the interval is declared to have
    r'|name|"char"|interval .*|interval\([0-5]\)'
)
_AT_MOST = re.compile(r"character varying\((\d+)\)(?:\[\])?")
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
"""Column → the only type of Spark, and Arrow's, whose values its binary form takes as they are."""
_INTEGERS = {"smallint": "int16", "integer": "int32", "bigint": "int64"}
JSON = ("json", "jsonb")


def fits(kind: Any, column: str) -> bool:
    """``kind``: as Spark's schema JSON has it; ``column``: as ``format_type`` writes it, of a domain what it is made
    of, of an enum ``enum``. A column that would round, cut or shift is none that fits."""
    kind = plain(kind)
    if isinstance(kind, dict):
        if column in JSON:
            return fits_in_json(kind)
        return kind["type"] == "array" and column.endswith("[]") and fits_element(kind["elementType"], column[:-2])
    if kind in _KEEP and column in _KEEP[kind]:
        return True
    if kind in ("timestamp", "timestamp_ntz"):
        found = _TIMESTAMP.fullmatch(column)
        zone = "with" if kind == "timestamp" else "without"
        return found is not None and found[1] == "timestamp" and found[3] == zone and found[2] in (None, "6")
    if is_text(kind):
        return not _NOT_TEXT.fullmatch(column)
    return _is_whole(kind, column)


def fits_element(kind: Any, column: str) -> bool:
    """Of an array. Arrays of arrays are one type in PostgreSQL, whatever their depth."""
    kind = plain(kind)
    if isinstance(kind, dict):
        return kind["type"] == "array" and fits_element(kind["elementType"], column)
    return fits(kind, column)


def _is_whole(kind: str, column: str) -> bool:
    found, wanted = _NUMERIC.fullmatch(column), digits_of(kind)
    if found is None or wanted is None:
        return False
    digits, scale = wanted
    return found[1] is None or (int(found[2]) >= scale and int(found[1]) - int(found[2]) >= digits - scale)


def made_for(kind: Any) -> str | None:
    """The type of a column that is made for such values; None if there is none."""
    kind = plain(kind)
    if isinstance(kind, dict):
        if kind["type"] == "array" and not isinstance(plain(kind["elementType"]), dict):
            element = made_for(kind["elementType"])
            return None if element is None else f"{element}[]"
        return "jsonb" if fits_in_json(kind) else None
    if is_text(kind):
        return "text"
    decimal = decimal_of(kind)
    return f"numeric({decimal[0]},{decimal[1]})" if decimal else _MADE.get(kind)


def as_written(name: str, kind: Any, column: str) -> str:
    """The Spark expression of what is written of a column, in text that PostgreSQL reads. Arrays are written later."""
    kind = plain(kind)
    if isinstance(kind, dict) and column in JSON:
        return as_json(name)
    if kind == "binary":
        return f"concat(char(92), 'x', hex({quoted(name)})) AS {quoted(name)}"
    found = _AT_MOST.fullmatch(column)
    if found is not None:
        return f"{_not_cut(quoted(name), kind, found[1])} AS {quoted(name)}"
    return quoted(name)


def as_written_in_binary(name: str, kind: Any, column: str) -> tuple[str, str] | None:
    """The same of what is written in PostgreSQL's binary form, which has a layout for each type of column, and the type
    that Arrow then has (as it begins: of a decimal without its digits); None if it has to be a text. Columns that are
    wider than Spark's type are cast to before, as far as that changes no value."""
    if not isinstance(kind, str):  # also a type of the user's own: Spark casts it to nothing
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
    is_plain = column in ("text", "character varying") or (_AT_MOST.fullmatch(column) and not column.endswith("[]"))
    return (as_written(name, kind, column), "string") if is_plain and is_text(kind) else None


def _not_cut(value: str, kind: Any, most: str, depth: int = 0) -> str:
    """Blanks behind the last place PostgreSQL cuts off in silence: what is longer gets an end that it refuses."""
    kind = plain(kind)
    if isinstance(kind, dict):
        one = f"e{depth}"
        return f"transform({value}, {one} -> {_not_cut(one, kind['elementType'], most, depth + 1)})"
    return f"CASE WHEN char_length({value}) > {most} THEN concat({value}, '.') ELSE {value} END"
