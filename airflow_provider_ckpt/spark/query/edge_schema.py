"""Event time across a result partition: files do not carry a watermark, so the reader of an edge sets it again.

Spark marks the column in the producer's schema. If the mark stayed in the schema of the reader, stateful operators
would drop late rows of a column although no watermark follows it. Without a watermark on the edge, the live inputs of
the query alone would decide which rows of the edge are late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.spark.query.event_time import MARK


def plain(schema: StructType) -> StructType:
    """Return the schema for reading the files, without marks."""
    return StructType([_unmarked(field) for field in schema.fields])


def event_time(schema: StructType) -> EventTime | None:
    """Return the watermark that Spark marked in the schema. If a join left several, it is the first, as for Spark."""
    for field in schema.fields:
        delay = (field.metadata or {}).get(MARK)
        if delay is not None:
            return EventTime(field.name, int(delay))
    return None


def marked(schema: StructType, event_time: EventTime) -> StructType:
    """Return a schema from the journal with Spark's mark of event time."""
    return StructType(
        [
            StructField(
                field.name, field.dataType, field.nullable, {**(field.metadata or {}), MARK: event_time.delay_ms}
            )
            if field.name == event_time.column
            else field
            for field in schema.fields
        ]
    )


def with_watermark(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return the frame with the watermark of the producer's output, if that has one."""
    mark = event_time(schema)
    return frame if mark is None else frame.withWatermark(f"`{mark.column}`", f"{mark.delay_ms} milliseconds")


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != MARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)
