"""Columns of type TIME, which this version of Spark writes to files only with a setting."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

_SETTING = "spark.sql.timeType.enabled"
_TIME = re.compile(r'(?<!"name":)"time\(\d+\)"')


def unwritable_time(spark: SparkSession, schema: StructType) -> str | None:
    """Return the first column that is of type TIME, or has a part of it; None if Spark writes all columns.

    Spark refuses most expressions of the type when it analyses them. It does not refuse ``current_time()`` and schemas
    that a function gives it, and then fails when it writes.
    """
    if not spark.conf.isModifiable(_SETTING) or spark.conf.get(_SETTING) == "true":
        return None  # another version of Spark has no such setting
    return next((field.name for field in schema.fields if _TIME.search(field.dataType.json())), None)
