"""Event time across a result partition. Its files have no watermark, so the reader of an edge sets the watermark again.

Spark marks the event-time column in the producer's schema. The reader removes the mark, because stateful operators
would drop late rows of a marked column without a watermark. Without a watermark on the edge, only the live inputs of
the query would decide which rows of the edge are late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.spark.query.event_time import MARK


def plain(schema: StructType) -> StructType:
    """Return the schema without Spark's marks of event time. Files are read with it."""
    return StructType([_unmarked(field) for field in schema.fields])


def event_time(schema: StructType) -> EventTime | None:
    """Return the watermark that is marked in the schema; None without a mark. If a join left several: the first."""
    for field in schema.fields:
        delay = (field.metadata or {}).get(MARK)
        if delay is not None:
            return EventTime(field.name, int(delay))
    return None


def marked(schema: StructType, event_time: EventTime) -> StructType:
    """Return the schema with Spark's mark of event time. Schemas in the journal lack the mark."""
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
    """Return the frame with the watermark of the producer's output, if the output has one."""
    mark = event_time(schema)
    return frame if mark is None else frame.withWatermark(f"`{mark.column}`", f"{mark.delay_ms} milliseconds")


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != MARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)
