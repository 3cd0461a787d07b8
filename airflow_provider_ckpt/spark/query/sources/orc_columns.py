"""Columns of ORC files that Spark would read as nulls, because the source declares another type.

Spark refuses such a column in a Parquet file. In an ORC file, it silently converts text and large numbers to null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from airflow_provider_ckpt.spark.query.analysed_plan import each
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.spark.query.stored_schemas import refuse_foreign_types, stored_schema
from airflow_provider_ckpt.sparkfiles.seen_files import escaped_glob

_WIDTH = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_FROM_TEXT = frozenset({*_WIDTH, "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True)
class OrcColumn:
    """A column of an ORC file that the source declares with another type.

    ``expected`` is Spark's name of the declared type, and ``actual`` Spark's name of the type in the file.
    """

    file: str
    column: str
    expected: str
    actual: str


def unfit_orc_column(spark: SparkSession, plan: Any) -> OrcColumn | None:
    """Return an ORC column whose values a plan would read as nulls or other numbers; None if there is no such column.

    To find it, a Spark job reads the footers of all ORC files of the plan.
    """
    for leaf in each(plan.collectLeaves()):
        index = index_of(leaf)
        if index is None or str(leaf.relation().fileFormat().toString()) != "ORC":
            continue
        expected = stored_schema(str(leaf.relation().dataSchema().json()))
        files = [unquote(str(uri)) for uri in index.inputFiles()]
        if files and _unfit(_schema_of(spark, files), expected) is not None:
            return next(_unfit_in(spark, files, expected), None)
    return None


def _unfit_in(spark: SparkSession, files: list[str], expected: StructType) -> Iterator[OrcColumn]:
    for file in files:
        unfit = _unfit(_schema_of(spark, [file]), expected)
        if unfit is not None:
            yield OrcColumn(file, *unfit)


def _schema_of(spark: SparkSession, files: list[str]) -> StructType | None:
    """Return the common schema of ORC files; None if any column has different types in two files."""
    paths = [escaped_glob(file) for file in files]
    try:
        return refuse_foreign_types(spark.read.format("orc").option("mergeSchema", True).load(paths)).schema
    except PySparkException as error:
        if error.getCondition() is not None and "MERGE_SCHEMA" in str(error.getCondition()):
            return None
        raise


def _unfit(schema: StructType | None, expected: StructType) -> tuple[str, str, str] | None:
    """Return (column, expected type, actual type) of the first lossy conversion; None if no conversion is lossy.

    If ``schema`` is None, the files have no common schema, so the three texts are empty. ``schema``: the files' schema.
    """
    if schema is None:
        return "", "", ""
    types = {field.name.lower(): field.dataType for field in schema.fields}
    for field in expected.fields:
        actual = types.get(field.name.lower())
        if actual is not None and _is_lossy(actual, field.dataType):
            return field.name, field.dataType.simpleString().upper(), actual.simpleString().upper()
    return None


def _is_lossy(actual: DataType, expected: DataType) -> bool:
    if isinstance(actual, StructType) and isinstance(expected, StructType):
        return _unfit(actual, expected) is not None
    if isinstance(actual, ArrayType) and isinstance(expected, ArrayType):
        return _is_lossy(actual.elementType, expected.elementType)
    if isinstance(actual, MapType) and isinstance(expected, MapType):
        return _is_lossy(actual.keyType, expected.keyType) or _is_lossy(actual.valueType, expected.valueType)
    kind, name = expected.simpleString(), actual.simpleString()
    if isinstance(actual, StringType):
        return kind in _FROM_TEXT or kind.startswith("decimal")
    return kind in _WIDTH and name in _WIDTH and _WIDTH[name] > _WIDTH[kind]
