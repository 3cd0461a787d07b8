"""Types of Spark, as its schema JSON has them. Pure."""

from __future__ import annotations

import re
from typing import Any

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Type → digits of its largest value."""
_PLAIN = (*_INTEGERS, "boolean", "float", "double", "date", "binary", "timestamp", "timestamp_ntz")


def plain(kind: Any) -> Any:
    """A user-defined type is written as what it is made of."""
    while isinstance(kind, dict) and kind["type"] == "udt":
        kind = kind["sqlType"]
    return kind


def shown(kind: Any) -> str:
    kind = plain(kind)
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)


def is_text(kind: Any) -> bool:
    return isinstance(kind, str) and (kind.startswith(("char(", "varchar(")) or kind.partition(" ")[0] == "string")


def decimal_of(kind: Any) -> tuple[int, int] | None:
    """(precision, scale); None if it is no decimal."""
    found = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return None if found is None else (int(found[1]), int(found[2]))


def digits_of(kind: Any) -> tuple[int, int] | None:
    """(digits, of them behind the point) of the largest value of an integer or a decimal; None if it is neither."""
    if isinstance(kind, str) and kind in _INTEGERS:
        return _INTEGERS[kind], 0
    return decimal_of(kind)


def fits_in_json(kind: Any) -> bool:
    """Whether Spark's ``to_json`` writes it so that nothing is lost."""
    kind = plain(kind)
    if not isinstance(kind, dict):
        return kind in _PLAIN or is_text(kind) or decimal_of(kind) is not None
    parts = [one["type"] for one in kind["fields"]] if kind["type"] == "struct" else []
    parts += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return all(map(fits_in_json, parts))


def as_json(name: str) -> str:
    """The Spark expression of a column of arrays, maps or structs as text."""
    return f"to_json({quoted(name)}, map('ignoreNullFields', 'false')) AS {quoted(name)}"


def quoted(name: str) -> str:
    """As Spark's SQL writes the name of a column."""
    return "`" + name.replace("`", "``") + "`"
