"""Columns of rows and tables, with types as in Spark's schema JSON, and checks that they fit. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.file.row_checks import check_file_input
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.spark_types import shown

_ATOMIC = frozenset(
    {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp"}
) | {"timestamp_ntz"}
_DECIMAL = re.compile(r"decimal\(\d+,-?\d+\)")
PARTITION_TYPES = ("string", "long", "integer", "short", "byte", "boolean", "date")
"""Types whose values every reader can parse from the name of a folder."""


@dataclass(frozen=True)
class Column:
    """A column of rows or of a table. ``type``: type as in Spark's schema JSON, with ids of inner fields.

    ``field_id``: the table's id of the column; None if staged files contain no ids.
    """

    name: str
    type: Any
    nullable: bool = True
    field_id: int | None = field(default=None, metadata=OMIT_EMPTY)


def columns_of(schema_json: str) -> tuple[Column, ...]:
    """Return the columns of Spark's schema JSON, which Delta tables use, too."""
    return tuple(Column(field["name"], field["type"], field["nullable"]) for field in json.loads(schema_json)["fields"])


def input_columns(given: SinkInput) -> tuple[Column, ...]:
    return tuple(Column(name, kind, name not in given.not_null) for name, kind in given.columns)


def schema_json(columns: Sequence[Column]) -> str:
    """Return Spark's schema JSON for a new table: all fields nullable, and without metadata of other tools."""
    fields = [
        {"name": column.name, "type": _nullable(column.type), "nullable": True, "metadata": {}} for column in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def _nullable(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = [
            {**field_json, "type": _nullable(field_json["type"]), "nullable": True, "metadata": {}}
            for field_json in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "array":
        return {"type": "array", "elementType": _nullable(kind["elementType"]), "containsNull": True}
    inner = {"keyType": _nullable(kind["keyType"]), "valueType": _nullable(kind["valueType"])}
    return {"type": "map", **inner, "valueContainsNull": True}


def check_table_input(given: SinkInput, sink: str, mode: str, key: Sequence[str], partition_by: Sequence[str]) -> None:
    """Refuse rows that no Delta or Iceberg table can store, and a ``key`` or ``partition_by`` that does not fit them.

    Raises SinkInputError, InvalidSinkError.
    """
    check_file_input(given, "parquet", partition_by, sink)
    if given.output_mode != "append" and mode != "upsert":
        problem = f"in output mode {given.output_mode!r} rows change, and with mode={mode!r} the table would keep all"
        raise SinkInputError(sink=given.uid, problem=problem, advice="Set mode='upsert' and the key columns")
    types = dict(given.columns)
    for name, kind in given.columns:
        for leaf in _leaves(kind):
            if leaf not in _ATOMIC and not _DECIMAL.fullmatch(leaf):
                problem = f"column {name!r} is or contains the type {leaf}, which the table cannot hold"
                raise SinkInputError(sink=given.uid, problem=problem, advice="Cast it to another type, or leave it out")
    for name in key:
        if name not in types:
            reason = f"is no column of the input of sink {given.uid}; it has {', '.join(map(repr, types))}"
            raise InvalidSinkError(sink=sink, setting="key", value=name, reason=reason)
        if isinstance(types[name], dict) or types[name] in ("float", "double"):
            found = f"is of type {shown(types[name])} in the input of sink {given.uid}"
            reason = f"{found}, whose values cannot be compared reliably"
            raise InvalidSinkError(sink=sink, setting="key", value=name, reason=reason)


def _leaves(kind: Any) -> Iterator[str]:
    if not isinstance(kind, dict):
        yield str(kind)
    elif kind["type"] == "struct":
        for field_json in kind["fields"]:
            yield from _leaves(field_json["type"])
    elif kind["type"] in ("array", "map"):
        for name in ("elementType", "keyType", "valueType"):
            if name in kind:
                yield from _leaves(kind[name])
    else:
        yield str(kind["type"])


def misfit(rows: Sequence[Column], table: Sequence[Column], *, may_lack: bool = False) -> str | None:
    """Return why rows with these columns cannot be written to the table; None if they can.

    ``may_lack``: True if the rows may lack columns that were added to the table. Missing columns become null.
    """
    table_columns = {column.name: column for column in table}
    for column in rows:
        if column.name not in table_columns:
            return _unknown(column.name, table_columns)
        if (
            problem := _type_misfit(f"column {column.name!r}", column.type, table_columns[column.name].type)
        ) is not None:
            return problem
        if column.nullable and not table_columns[column.name].nullable:
            return f"column {column.name!r} may be null, and is NOT NULL in the table"
    names = {column.name for column in rows}
    for column in table:
        if column.name not in names and not (may_lack and column.nullable):
            return f"the table has a column {column.name!r} that the rows lack (a null of its type would do)"
    return None


def _unknown(name: str, table_columns: Mapping[str, Column]) -> str:
    alike = [candidate for candidate in table_columns if candidate.casefold() == name.casefold()]
    if alike:
        return f"column {name!r} is called {alike[0]!r} in the table"
    return f"the table has no column {name!r}; it has {', '.join(map(repr, table_columns))}"


def _type_misfit(path: str, row_type: Any, table_type: Any) -> str | None:
    if not isinstance(row_type, dict) or not isinstance(table_type, dict) or row_type["type"] != table_type["type"]:
        return (
            None
            if row_type == table_type
            else f"{path} is of type {shown(row_type)}, and {shown(table_type)} in the table"
        )
    if row_type["type"] == "struct":
        inside = misfit(_fields(row_type), _fields(table_type))
        return None if inside is None else f"in {path}: {inside}"
    for key, nulls in (("elementType", "containsNull"), ("keyType", None), ("valueType", "valueContainsNull")):
        if key not in row_type:
            continue
        if (problem := _type_misfit(f"{path} ({key})", row_type[key], table_type[key])) is not None:
            return problem
        if nulls is not None and row_type.get(nulls, True) and not table_type.get(nulls, True):
            return f"{path} may hold nulls, and may not in the table"
    return None


def _fields(kind: Mapping[str, Any]) -> list[Column]:
    return [Column(field_json["name"], field_json["type"], field_json["nullable"]) for field_json in kind["fields"]]
