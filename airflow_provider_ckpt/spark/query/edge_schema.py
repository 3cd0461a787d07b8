"""Event time across a result partition: files do not carry a watermark, so the reader of an edge sets it again.

Spark marks the column in the producer's schema. Left in the schema of the reader, that mark makes stateful
operators drop late rows of a column whose own event time nobody follows; lost, the live input beside the edge
alone makes the edge's rows late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.spark.query.event_time import MARK


def plain(schema: StructType) -> StructType:
    """The schema to read the files with."""
    return StructType([_unmarked(field) for field in schema.fields])


def event_time(schema: StructType) -> EventTime | None:
    """The watermark that Spark marked in the schema. Of several (a join's) the first: Spark takes one."""
    for field in schema.fields:
        delay = (field.metadata or {}).get(MARK)
        if delay is not None:
            return EventTime(field.name, int(delay))
    return None


def marked(schema: StructType, event_time: EventTime) -> StructType:
    """The schema as Spark marks it, for one that was read back from the journal."""
    return StructType(
        [
            StructField(one.name, one.dataType, one.nullable, {**(one.metadata or {}), MARK: event_time.delay_ms})
            if one.name == event_time.column
            else one
            for one in schema.fields
        ]
    )


def with_watermark(frame: DataFrame, schema: StructType) -> DataFrame:
    """The watermark of the producer's output, if it has one."""
    mark = event_time(schema)
    return frame if mark is None else frame.withWatermark(f"`{mark.column}`", f"{mark.delay_ms} milliseconds")


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != MARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)
