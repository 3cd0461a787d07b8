"""Safe parsing of schemas that are stored under a root or in data files.

When PySpark parses a schema, it imports the Python class that a user-defined type names. Anyone who may write a journal
or a Parquet file could name a class. So only classes of Spark are allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.spark.query.errors import ForeignCodeError

_OF_SPARK = "pyspark."


def stored_schema(value: str | dict[str, Any]) -> StructType:
    """Parse a schema from JSON text or from a parsed object.

    Raises ForeignCodeError if the schema names a Python class other than Spark's own.
    """
    parsed = json.loads(value) if isinstance(value, str) else value
    _refuse_classes(parsed)
    return StructType.fromJson(parsed)


def refuse_foreign_types(frame: DataFrame) -> DataFrame:
    """Return ``frame``. Refuse a schema that names Python classes other than Spark's own.

    Call this before ``frame.schema`` is read for the first time.

    Raises ForeignCodeError.
    """
    text = str(frame._jdf.schema().json())
    if '"udt"' in text:
        _refuse_classes(json.loads(text))
    return frame


def _refuse_classes(schema: Any) -> None:
    for name in _classes(schema):
        if not name.startswith(_OF_SPARK):
            raise ForeignCodeError(
                "a schema names the Python class {name} as the type of a column. Spark would import and run that "
                "code, and whoever writes the file would choose it. Write the column with a plain type, such as a "
                "struct or an array",
                name=name,
            )


def _classes(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.get("type") == "udt" and value.get("pyClass") is not None:
            yield str(value["pyClass"])
        for inner in value.values():
            yield from _classes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _classes(inner)
