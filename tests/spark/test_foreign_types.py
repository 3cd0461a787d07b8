"""Schemas of data files and of journals that name Python classes, which PySpark would import."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from airflow_provider_ckpt.spark.query.errors import ForeignCodeError
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema

FIELD: dict[str, Any] = {"nullable": True, "metadata": {}}
CLASS = "data_of_this_test.evil.Type"
FOREIGN = {"type": "udt", "pyClass": CLASS, "serializedClass": "AAAA", "sqlType": "long"}


def schema_of(kind: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "n", "type": kind, **FIELD}]}


@pytest.mark.parametrize(
    "kind",
    [
        FOREIGN,
        schema_of(FOREIGN),
        {"type": "array", "elementType": FOREIGN, "containsNull": True},
        {"type": "map", "keyType": "long", "valueType": FOREIGN, "valueContainsNull": True},
    ],
)
def test_a_stored_schema_imports_no_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.syspath_prepend(str(write_class(tmp_path)))
    for schema in (schema_of(kind), json.dumps(schema_of(kind))):
        with pytest.raises(ForeignCodeError, match=CLASS):
            stored_schema(schema)
    assert "data_of_this_test" not in sys.modules


def test_plain_types_and_spark_types_are_read() -> None:
    vector = {**FOREIGN, "pyClass": "pyspark.ml.linalg.VectorUDT"}
    del vector["serializedClass"]
    assert stored_schema(schema_of(vector)).fields[0].dataType.typeName() == "vectorudt"
    assert stored_schema(schema_of("long")) == StructType([StructField("n", LongType())])


def test_a_parquet_footer_imports_no_class(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_class(tmp_path)))
    table = pa.table({"n": [1, 2]})
    marked = {b"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema_of(FOREIGN)).encode()}
    (tmp_path / "in").mkdir()
    pq.write_table(table.replace_schema_metadata(marked), tmp_path / "in" / "1.parquet")
    with pytest.raises(ForeignCodeError, match=CLASS):
        BatchReader(spark).parquet(f"{tmp_path}/in")
    assert "data_of_this_test" not in sys.modules


def write_class(folder: Path) -> Path:
    """Write a package whose import would be noticed."""
    (folder / "data_of_this_test").mkdir()
    (folder / "data_of_this_test" / "evil.py").write_text("from pyspark.sql.types import LongType as Type\n")
    return folder
