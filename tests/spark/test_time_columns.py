"""Columns of type TIME that Spark would not write. No Spark runs here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimeType

from airflow_provider_ckpt.spark.plan.job_plan import unwritable_time


def session(value: str | None) -> Any:
    """Return a session with the setting. None: Spark has no such setting."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key: value, isModifiable=lambda key: value is not None))


def schema(kind: Any) -> StructType:
    return StructType([StructField("id", LongType()), StructField("at", kind)])


@pytest.mark.parametrize(
    "kind", [TimeType(6), ArrayType(TimeType(0)), StructType([StructField("opens", TimeType(6))])], ids=str
)
def test_a_time_column_is_named_unless_spark_can_write_it(kind: Any) -> None:
    assert unwritable_time(session("false"), schema(kind)) == "at"
    assert unwritable_time(session("true"), schema(kind)) is None
    assert unwritable_time(session(None), schema(kind)) is None


@pytest.mark.parametrize("kind", [StringType(), StructType([StructField("time(6)", StringType())])], ids=str)
def test_columns_of_other_types_are_accepted(kind: Any) -> None:
    assert unwritable_time(session("false"), schema(kind)) is None
