"""Columns and reader options of a Spark relation of CSV or JSON files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructField

from airflow_provider_ckpt.spark.query.analysed_plan import each
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema

CORRUPT = "__ckpt_corrupt"
"""Name for the column of malformed rows when a text is parsed again."""
LIKE_UTF_8 = frozenset({"UTF-8", "UTF8", "US-ASCII", "ASCII"})
"""Charsets of files that Spark's functions can parse as they are."""
_OWN = "__ckpt_"
"""Prefix of the columns that this package adds to a source."""
_OF_THE_FILE = frozenset({"path", "paths", "encoding", "charset", "linesep", "multiline", "compression"})
"""Options of a reader that apply to the whole file, and not to a single row."""


def format_of(relation: Any) -> str:
    return str(relation.fileFormat().toString())


def own_fields(relation: Any) -> list[StructField]:
    """Return the source's own columns, without the columns that this package adds."""
    fields = stored_schema(str(relation.dataSchema().json())).fields
    return [field for field in fields if not field.name.startswith(_OWN)]


def options_of(relation: Any) -> dict[str, str]:
    """Return the options of the reader, with keys in lower case."""
    return {str(option._1()).lower(): str(option._2()) for option in each(relation.options().toSeq())}


def row_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that apply to a single row."""
    return {key: value for key, value in options.items() if key not in _OF_THE_FILE}


def charset_of(options: Mapping[str, str]) -> str:
    return (options.get("encoding") or options.get("charset") or "UTF-8").upper()
