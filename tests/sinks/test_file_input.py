"""FileSink refuses, before anything is written, exactly the input that Spark's writer would refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.file_writer import FileWriter, Format
from airflow_provider_ckpt.sinks.sink import SinkInput

VALUES = {
    "text": "'a'",
    "boolean": "true",
    "byte": "1Y",
    "decimal": "CAST(1 AS DECIMAL(38, 10))",
    "float": "1.0F",
    "date": "DATE'2026-01-01'",
    "timestamp": "TIMESTAMP'2026-01-01'",
    "timestamp without zone": "TIMESTAMP_NTZ'2026-01-01'",
    "binary": "CAST('a' AS BINARY)",
    "null": "NULL",
    "variant": "PARSE_JSON('1')",
    "interval of a day": "INTERVAL '1' DAY",
    "interval of a month": "INTERVAL '1' MONTH",
    "calendar interval": "MAKE_INTERVAL(1, 1, 1, 1)",
    "array": "ARRAY(1)",
    "array of null": "ARRAY(NULL)",
    "array of calendar intervals": "ARRAY(MAKE_INTERVAL(1, 1, 1, 1))",
    "array of variants": "ARRAY(PARSE_JSON('1'))",
    "map": "MAP('a', 1)",
    "map to null": "MAP('a', NULL)",
    "struct": "NAMED_STRUCT('a', 1)",
    "struct of null": "NAMED_STRUCT('a', NULL)",
    "empty struct": "NAMED_STRUCT()",
    "struct of an empty struct": "NAMED_STRUCT('a', NAMED_STRUCT())",
}


def given(frame: DataFrame) -> SinkInput:
    fields = json.loads(frame.schema.json())["fields"]
    return SinkInput("lake", tuple((field["name"], field["type"]) for field in fields))


def columns(*names: str, kind: Any = "long") -> SinkInput:
    return SinkInput("lake", tuple((name, kind) for name in names))


def spark_refuses(frame: DataFrame, path: Path, kind: Format, partition_by: tuple[str, ...] = ()) -> bool:
    try:
        FileWriter(kind, partition_by, {}).write(frame, str(path))
    except PySparkException:
        return True
    return False


def sink_refuses(frame: DataFrame, kind: Format, partition_by: tuple[str, ...] = ()) -> str | None:
    try:
        FileSink("/lake", format=kind, partition_by=partition_by).check_input(given(frame))
    except InvalidInputError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", VALUES)
def test_a_column_is_refused_iff_spark_refuses_its_type(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {VALUES[name]} AS v")
    for kind in get_args(Format):
        refusal = sink_refuses(frame, kind)
        assert (refusal is not None) == spark_refuses(frame, tmp_path / kind, kind), (kind, refusal)
        if refusal is not None:
            assert all(part in refusal for part in ("Sink lake", "'v'", kind.upper()))


@pytest.mark.spark
@pytest.mark.parametrize("name", VALUES)
def test_a_partition_column_is_refused_iff_spark_refuses_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {VALUES[name]} AS v")
    refusal = sink_refuses(frame, "parquet", ("v",))
    assert (refusal is not None) == spark_refuses(frame, tmp_path / "out", "parquet", ("v",)), refusal
    if refusal is not None:
        assert all(part in refusal for part in ("sink lake", "partition_by='v'", "type"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "partition_by"),
    [
        ("1 a, 2 b", ("a", "b")),
        ("1 a, 2 b", ("z",)),
        ("1 a, 2 b", ("A",)),
        ("1 a, 2 b", ("B", "A")),
        ("1 `a.b`, 2 c", ("a.b",)),
    ],
)
def test_partition_columns_are_resolved_as_in_spark(
    spark: SparkSession, tmp_path: Path, columns: str, partition_by: tuple[str, ...]
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    refused = sink_refuses(frame, "parquet", partition_by) is not None
    assert refused == spark_refuses(frame, tmp_path / "out", "parquet", partition_by)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "json", "orc"])
@pytest.mark.parametrize("columns", ["1 a, 2 a", "1 a, 2 A"])
def test_duplicate_columns_are_refused_as_in_spark(
    spark: SparkSession, tmp_path: Path, kind: Format, columns: str
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    assert spark_refuses(frame, tmp_path / "out", kind)
    assert sink_refuses(frame, kind) is not None


@pytest.mark.parametrize("kind", get_args(Format))
def test_the_error_for_duplicate_columns_names_them(kind: Format) -> None:
    with pytest.raises(SinkInputError, match=r"'Day'.*'day'.*Rename"):
        FileSink("/lake", format=kind).check_input(columns("id", "Day", "day"))
    with pytest.raises(SinkInputError, match=r"'day'.*'DAY'.*Rename"):
        FileSink("/lake", format=kind).check_input(columns("day", "id", "DAY"))


def test_an_input_without_columns_is_refused() -> None:
    with pytest.raises(SinkInputError, match="no columns"):
        FileSink("/lake").check_input(columns())


def test_the_error_for_a_missing_partition_column_names_the_existing_ones() -> None:
    with pytest.raises(InvalidSinkError, match=r"partition_by='dya'.*sink lake.*'id', 'day'"):
        FileSink("/lake", partition_by=["dya"]).check_input(columns("id", "day"))


def test_partitioning_by_every_column_is_refused() -> None:
    with pytest.raises(InvalidSinkError, match="every column"):
        FileSink("/lake", partition_by=["day"]).check_input(columns("Day"))


@pytest.mark.parametrize("kind", ["geometry(SRID:0)", "geography(OGC:CRS84, SPHERICAL)"])
@pytest.mark.parametrize(("file_format", "taken"), [("parquet", True), ("json", False), ("csv", False), ("orc", False)])
def test_geometry_columns_are_accepted_only_by_parquet(kind: str, file_format: Format, taken: bool) -> None:
    """Spark 4.2 supports these types only with a setting. The expectations were observed with that setting on."""
    sink = FileSink("/lake", format=file_format)
    nested = {"type": "array", "elementType": kind, "containsNull": True}
    for shape in (kind, nested) if file_format != "csv" else (kind,):
        if taken:
            sink.check_input(columns("v", kind=shape))
        else:
            with pytest.raises(SinkInputError, match=file_format.upper()):
                sink.check_input(columns("v", kind=shape))
    with pytest.raises(InvalidSinkError, match="type geo"):
        FileSink("/lake", partition_by=["v"]).check_input(SinkInput("lake", (("id", "long"), ("v", kind))))


def test_a_user_defined_type_is_checked_as_its_sql_type() -> None:
    point = {
        "type": "udt",
        "pyClass": "m.P",
        "sqlType": {"type": "array", "elementType": "double", "containsNull": False},
    }
    FileSink("/lake").check_input(columns("p", kind=point))
    with pytest.raises(SinkInputError, match="type array"):
        FileSink("/lake", format="csv").check_input(columns("p", kind=point))
