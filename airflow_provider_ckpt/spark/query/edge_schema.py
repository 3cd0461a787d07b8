"""Event time across a result partition, whose files carry no watermark.

Spark marks the event-time column in the producer's schema. The consumer's query removes this mark from the files'
schema, and sets the watermark again. With the mark alone, stateful operators would drop late rows. Without a watermark,
the live inputs of the query alone would decide which rows of the partition are late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.spark.query.event_time import MARK


def plain(schema: StructType) -> StructType:
    """Return the schema without Spark's marks of event time. Queries read result-partition files with this schema."""
    return StructType([_unmarked(field) for field in schema.fields])


def event_time(schema: StructType) -> EventTime | None:
    """Return the first column that Spark has marked with event time, and its delay; None if no column has a mark."""
    for field in schema.fields:
        delay = (field.metadata or {}).get(MARK)
        if delay is not None:
            return EventTime(field.name, int(delay))
    return None


def marked(schema: StructType, event_time: EventTime) -> StructType:
    """Return the schema with Spark's mark on the column of ``event_time``. Schemas in the journal have no marks."""
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
    """Return ``frame`` with the watermark that the producer's ``schema`` marks; ``frame`` itself without a mark."""
    mark = event_time(schema)
    return frame if mark is None else frame.withWatermark(f"`{mark.column}`", f"{mark.delay_ms} milliseconds")


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != MARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)
