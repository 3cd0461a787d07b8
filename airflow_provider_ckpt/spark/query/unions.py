"""Unions of several inputs, whose columns stay the same when an ended input is left out.

Spark takes the order of a union's columns from the first input, and their types from all inputs. If an ended input is
left out, the remaining inputs would give another order or other types. So the plan records the schema of each union,
and the remaining inputs are converted to that schema.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.model.definition import UnionDefinition
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError, UnsupportedQueryError
from airflow_provider_ckpt.spark.query.event_time import projected
from airflow_provider_ckpt.spark.query.nested_fields import (
    in_order_of,
    is_in_another_order,
    spelling_of,
    unlike_fields,
)
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema


@dataclass(frozen=True)
class Union:
    """The schema of a union, and of each of its inputs. ``inputs``: uid of source or transform -> its schema."""

    schema: StructType
    inputs: Mapping[str, StructType]

    def recorded(self, operator: str, parameter: str) -> UnionDefinition:
        inputs = {uid: plain(schema).jsonValue() for uid, schema in self.inputs.items()}
        return UnionDefinition(operator, parameter, plain(self.schema).jsonValue(), inputs)


Unions = Mapping[tuple[str, str], Union]
"""(Operator uid, parameter of its function) -> union, for each parameter with several inputs."""


def read_unions(recorded: tuple[UnionDefinition, ...]) -> dict[tuple[str, str], Union]:
    return {
        (union.operator, union.parameter): Union(
            stored_schema(dict(union.schema)),
            {uid: stored_schema(dict(schema)) for uid, schema in union.inputs.items()},
        )
        for union in recorded
    }


def unite(frames: list[DataFrame]) -> DataFrame:
    """Return the union of frames by column name; with one frame, that frame.

    ``withWatermark`` on the union sets the watermark on each frame instead. So the slowest frame holds back event time,
    as in Flink.
    """
    if len(frames) == 1:
        return frames[0]
    united = functools.reduce(DataFrame.unionByName, frames)

    def with_watermark(eventTime: str, delayThreshold: str) -> DataFrame:  # noqa: N803 - Spark's names
        return unite([frame.withWatermark(eventTime, delayThreshold) for frame in frames])

    united.withWatermark = with_watermark  # type: ignore[method-assign]
    return united


def with_like_fields(operator: Operator, frames: Mapping[str, DataFrame]) -> list[DataFrame]:
    """Return the inputs of a union, with struct fields ordered as in the first input.

    A struct whose field names differ from the first input's is refused. Spark would unite it by position, or fail
    without naming the struct.

    Raises UnsupportedQueryError.
    """
    (first, schema), *_ = ((uid, frame.schema) for uid, frame in frames.items())
    return [frame if uid == first else _like(operator, uid, frame, first, schema) for uid, frame in frames.items()]


def _like(operator: Operator, uid: str, frame: DataFrame, first: str, schema: StructType) -> DataFrame:
    fields_wanted, spelling = _by_name(frame, schema), spelling_of(frame.sparkSession)
    columns, is_same = [], True
    for name, have in _by_name(frame, frame.schema).items():
        want = fields_wanted.get(name, have)  # Spark refuses a column that only one input has
        problem = unlike_fields(have.dataType, want.dataType, spelling)
        if problem is not None:
            about = {"uid": operator.uid, "location": operator.location, "first": first}
            raise UnsupportedQueryError(
                "the inputs of {uid!r} ({location}) cannot be united: column {column!r} of {input!r} holds {problem}, "
                "which is what {first!r} has there. Give the structs of all inputs the same fields; their order does "
                "not matter",
                input=uid,
                column=have.name,
                problem=problem,
                **about,
            )
        column = F.col(quoted(have.name))
        if is_in_another_order(have.dataType, want.dataType, spelling):
            column = in_order_of(column, have.dataType, want.dataType, spelling).alias(have.name)
            is_same = False
        columns.append(column)
    return frame if is_same or len(columns) < len(frame.schema.fields) else projected(frame, *columns)


def without_ended(frames: Mapping[str, DataFrame], union: Union) -> list[DataFrame]:
    """Return ``frames`` with the columns that the recorded union had when no input was left out.

    ``frames``: uid -> frame of each input that has not ended.

    Raises SchemaChangedError.
    """
    return [_with_union_columns(uid, frame, union.schema, union.inputs.get(uid)) for uid, frame in frames.items()]


def _with_union_columns(uid: str, frame: DataFrame, united: StructType, recorded: StructType | None) -> DataFrame:
    """Return the frame of an input with the columns of ``united``, in that order and with those types.

    A missing column is refused, because a union by position would use another column instead. New columns come last. A
    column whose type is not the recorded one keeps its new type, because a later check compares the output. Columns
    that need no cast stay plain references, which keep their event time.

    Args:
        united: schema of the union with all inputs.
        recorded: recorded schema of this input; None if none was recorded.
    """
    fields, united_fields, spelling = (
        _by_name(frame, frame.schema),
        _by_name(frame, united),
        spelling_of(frame.sparkSession),
    )
    if united_fields.keys() - fields.keys() or len(fields) < len(frame.schema.fields):
        before, after = (recorded or united).simpleString(), frame.schema.simpleString()
        raise SchemaChangedError(vertex=uid, before=before, after=after)
    recorded_fields = {} if recorded is None else _by_name(frame, recorded)
    columns, is_same = [], [*fields] == [*united_fields]
    for name, want in united_fields.items():
        have, recorded_field = fields.pop(name), recorded_fields.get(name)
        column = F.col(quoted(have.name))
        if (
            not same_type(have.dataType, want.dataType)
            and recorded_field
            and same_type(have.dataType, recorded_field.dataType)
        ):
            if unlike_fields(have.dataType, want.dataType, spelling) is not None:
                before, after = united.simpleString(), frame.schema.simpleString()
                raise SchemaChangedError(vertex=uid, before=before, after=after)
            column = in_order_of(column, have.dataType, want.dataType, spelling)  # a cast goes by position
            column, is_same = column.cast(want.dataType).alias(want.name), False
        elif have.name != want.name:
            column, is_same = column.alias(want.name), False
        columns.append(column)
    if is_same:
        return frame
    return projected(frame, *columns, *(F.col(quoted(have.name)) for have in fields.values()))


def _by_name(frame: DataFrame, schema: StructType) -> dict[str, StructField]:
    """Return name -> column of ``schema``. Names are in lower case, unless the session's names are case-sensitive."""
    spelling = spelling_of(frame.sparkSession)
    return {spelling(field.name): field for field in schema.fields}


def same_type(first: DataType, second: DataType) -> bool:
    return bool(shape(first.jsonValue()) == shape(second.jsonValue()))


def shape(schema: Any) -> Any:
    """Return Spark's JSON of a schema without nullability and metadata, so that only names and types are compared.

    Nullability may change when an ended input is left out of a union.
    """
    if isinstance(schema, list):
        return [shape(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ignored = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {key: shape(value) for key, value in schema.items() if key not in ignored}
