"""Conversion of Iceberg's columns to Spark's types and back. No I/O."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_ckpt.sinks.lake.columns import Column

_TO_SPARK = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
_SMALL = ("short", "byte")
"""Spark's types that Iceberg lacks. Iceberg and Parquet store these whole numbers with 32 bits."""
_FIELD_ID = "parquet.field.id"
"""Metadata key of a Spark field. The value is the field's id in a Parquet file."""
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def spark_columns(schema: Any) -> tuple[Column, ...]:
    """Return the columns of a ``pyiceberg.schema.Schema``. A type that Spark lacks has Iceberg's name."""
    return tuple(Column(field.name, _spark_type(field.field_type), not field.required) for field in schema.fields)


def _spark_type(kind: Any) -> Any:
    if kind.is_struct:
        fields = [
            {"name": field.name, "type": _spark_type(field.field_type), "nullable": not field.required}
            for field in kind.fields
        ]
        return {"type": "struct", "fields": fields}
    name = str(kind)
    if name.startswith("list<"):
        inner = _spark_type(kind.element_type)
        return {"type": "array", "elementType": inner, "containsNull": not kind.element_required}
    if name.startswith("map<"):
        inner = {"keyType": _spark_type(kind.key_type), "valueType": _spark_type(kind.value_type)}
        return {"type": "map", **inner, "valueContainsNull": not kind.value_required}
    decimal = _DECIMAL.fullmatch(name)
    return f"decimal({decimal[1]},{decimal[2]})" if decimal else _TO_SPARK.get(name, name)


def as_iceberg_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with the type ``integer`` instead of ``short`` and ``byte``, also in nested types."""
    return tuple(Column(column.name, _widened(column.type), column.nullable) for column in columns)


def _widened(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return "integer" if kind in _SMALL else kind
    widened = dict(kind)
    for key in ("elementType", "keyType", "valueType"):
        if key in widened:
            widened[key] = _widened(widened[key])
    if "fields" in widened:
        widened["fields"] = [{**field, "type": _widened(field["type"])} for field in widened["fields"]]
    return widened


def promoted(columns: Sequence[Column], table: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of staged rows, with the table's type for each column whose type the table has widened.

    A widening is final, and readers can read the older files (Iceberg's spec, "Schema Evolution").
    """
    table_types = {column.name: column.type for column in table}
    return tuple(
        Column(
            column.name,
            table_types[column.name] if _is_promoted(column.type, table_types.get(column.name)) else column.type,
            column.nullable,
        )
        for column in columns
    )


def _is_promoted(row_type: Any, table_type: Any) -> bool:
    if (row_type, table_type) in (("integer", "long"), ("float", "double")):
        return True
    digits = [_DECIMAL.fullmatch(kind) if isinstance(kind, str) else None for kind in (row_type, table_type)]
    if digits[0] is None or digits[1] is None:
        return False
    return digits[0][2] == digits[1][2] and int(digits[0][1]) < int(digits[1][1])


def required_field(columns: Sequence[Column]) -> str | None:
    """Return the name of the first required or nested required field, except map keys; None if there is none."""
    for column in columns:
        inside = _required_inside(column.type)
        if not column.nullable or inside is not None:
            return column.name if inside is None else f"{column.name}.{inside}"
    return None


def _required_inside(kind: Any) -> str | None:
    if not isinstance(kind, dict):
        return None
    if "fields" in kind:
        return required_field([Column(field["name"], field["type"], field["nullable"]) for field in kind["fields"]])
    for part, nulls in (("elementType", "containsNull"), ("valueType", "valueContainsNull")):
        if part in kind:
            inside = _required_inside(kind[part])
            return part if not kind[nulls] else inside
    return None


def takes_field_ids(schema: Any) -> bool:
    """Return True if Spark can write the id of every field of a ``pyiceberg.schema.Schema`` to a Parquet file.

    Spark writes no ids inside arrays and maps. A file must have all ids or none, because readers treat fields without
    an id as missing and show nulls.
    """
    return not any(str(field.field_type).startswith(("list<", "map<")) for field in _fields_inside(schema.fields))


def _fields_inside(fields: Sequence[Any]) -> Iterator[Any]:
    for field in fields:
        yield field
        if field.field_type.is_struct:
            yield from _fields_inside(field.field_type.fields)


def with_field_ids(columns: Sequence[Column], schema: Any) -> tuple[Column, ...]:
    """Return columns with the ids of a ``pyiceberg.schema.Schema``; unchanged if :func:`takes_field_ids` is False."""
    if not takes_field_ids(schema):
        return tuple(columns)
    fields = {field.name: field for field in schema.fields}
    return tuple(
        replace(
            column,
            type=_type_with_ids(column.type, fields[column.name].field_type),
            field_id=fields[column.name].field_id,
        )
        for column in columns
    )


def _type_with_ids(kind: Any, iceberg_type: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    inside = {field.name: field for field in iceberg_type.fields}
    fields = [
        {
            **field,
            "type": _type_with_ids(field["type"], inside[field["name"]].field_type),
            "metadata": {**field.get("metadata", {}), _FIELD_ID: inside[field["name"]].field_id},
        }
        for field in kind["fields"]
    ]
    return {**kind, "fields": fields}


def spark_schema_with_ids(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the columns as Spark's schema JSON, with the ids that Spark writes to Parquet files."""
    fields = [
        {
            "name": column.name,
            "type": column.type,
            "nullable": column.nullable,
            "metadata": {_FIELD_ID: column.field_id},
        }
        for column in columns
    ]
    return {"type": "struct", "fields": fields}


def iceberg_schema(columns: Sequence[Column]) -> Any:
    """Return a ``pyiceberg.schema.Schema`` in which every field may be null."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    ids = itertools.count(1)
    fields = [
        NestedField(next(ids), column.name, _iceberg_type(column.type, ids), required=False) for column in columns
    ]
    return Schema(*fields)


def _iceberg_type(kind: Any, ids: Any) -> Any:
    from pyiceberg import types

    if not isinstance(kind, dict):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal:
            return types.DecimalType(int(decimal[1]), int(decimal[2]))
        iceberg_names = {spark: iceberg for iceberg, spark in _TO_SPARK.items()}
        return _primitive(iceberg_names[kind])
    if kind["type"] == "struct":
        fields = kind["fields"]
        return types.StructType(
            *(
                types.NestedField(next(ids), field["name"], _iceberg_type(field["type"], ids), required=False)
                for field in fields
            )
        )
    if kind["type"] == "array":
        return types.ListType(next(ids), _iceberg_type(kind["elementType"], ids), element_required=False)
    key, value = next(ids), next(ids)
    inner = _iceberg_type(kind["keyType"], ids), _iceberg_type(kind["valueType"], ids)
    return types.MapType(key, inner[0], value, inner[1], value_required=False)


def _primitive(name: str) -> Any:
    from pyiceberg import types

    return {
        "boolean": types.BooleanType,
        "int": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "string": types.StringType,
        "binary": types.BinaryType,
        "date": types.DateType,
        "timestamp": types.TimestampType,
        "timestamptz": types.TimestamptzType,
    }[name]()
