"""Event time across a result partition: files do not carry a watermark, so the reader of an edge sets it again.

Spark marks the column in the producer's schema. Left in the schema of the reader, that mark makes stateful
operators drop late rows of a column whose own event time nobody follows; lost, the live input beside the edge
alone makes the edge's rows late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

_MARK = "spark.watermarkDelayMs"


def plain(schema: StructType) -> StructType:
    """The schema to read the files with."""
    return StructType([_unmarked(field) for field in schema.fields])


def with_watermark(frame: DataFrame, schema: StructType) -> DataFrame:
    """The watermark of the producer's output, if it has one. Of several (a join's) the first: Spark takes one."""
    for field in schema.fields:
        delay = (field.metadata or {}).get(_MARK)
        if delay is not None:
            return frame.withWatermark(f"`{field.name}`", f"{int(delay)} milliseconds")
    return frame


def _unmarked(field: StructField) -> StructField:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != _MARK}
    return StructField(field.name, field.dataType, field.nullable, metadata)
