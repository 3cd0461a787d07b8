"""JSON that database sinks write for arrays, maps and structs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.spark_types import as_json, fits_in_json
from airflow_provider_ckpt.sinks.sql import mysql_types


def test_json_timestamps_keep_microseconds_in_any_session_time_zone(spark: SparkSession) -> None:
    struct = (
        "struct(timestamp'2026-01-02 03:04:05.123456Z' AS at, timestamp_ntz'2026-01-02 03:04:05.000001' AS here, "
        "timestamp'0001-01-02 03:04:05Z' AS old, CAST(null AS INT) AS none)"
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        row = spark.sql(f"SELECT {struct} AS `a ``b`").selectExpr(as_json("a `b")).first()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert row is not None
    assert json.loads(row["a `b"]) == {
        "at": "2026-01-02T03:04:05.123456Z",
        "here": "2026-01-02T03:04:05.000001",
        "old": "0001-01-02T03:04:05.000000Z",
        "none": None,
    }


def map_by(key: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": "binary", "valueContainsNull": True}


@pytest.mark.parametrize(
    "key", ["binary", {"type": "array", "elementType": "string"}, {"type": "struct", "fields": []}]
)
def test_a_map_with_keys_that_json_cannot_hold_does_not_fit(key: Any) -> None:
    assert not fits_in_json(map_by(key))
    assert not fits_in_json({"type": "array", "elementType": map_by(key), "containsNull": True})


@pytest.mark.parametrize("key", ["string", "long", "decimal(10,2)", "date", "boolean"])
def test_a_map_with_simple_keys_fits(key: str) -> None:
    assert fits_in_json(map_by(key))


def test_a_struct_with_duplicate_field_names_does_not_fit() -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]
    assert not fits_in_json({"type": "struct", "fields": fields})


def test_a_decimal_that_mysqls_json_would_round_needs_a_text_column() -> None:
    def prices(digits: int) -> dict[str, Any]:
        fields = [{"name": "price", "type": f"decimal({digits},2)"}]
        return {"type": "array", "elementType": {"type": "struct", "fields": fields}, "containsNull": True}

    assert mysql_types.fits(prices(15), "json")
    assert not mysql_types.fits(prices(16), "json")
    assert mysql_types.fits(prices(38), "longtext")
    assert mysql_types.column_type_for(prices(15), "utf8mb4_bin", is_key=False) == "json"
    made = mysql_types.column_type_for(prices(16), "utf8mb4_bin", is_key=False)
    assert made is not None
    assert mysql_types.fits(prices(16), made)
