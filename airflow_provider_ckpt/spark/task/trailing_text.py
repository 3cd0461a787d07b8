"""Text after the JSON value of a row, such as a second value in the same line.

Spark's reader stops after the first value, and drops the rest silently. So the files of a batch are read again, as
text. A comma or a closing bracket after the value has no data, and is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from airflow_provider_ckpt.spark.task.file_relation import (
    CORRUPT,
    LIKE_UTF_8,
    charset_of,
    format_of,
    options_of,
    own_fields,
    row_options,
)

REASON = "text after the first JSON value is not read"
_TEXT = "__ckpt_text"
_HAS_MORE = "__ckpt_has_more"
_TEXT_SCHEMA = StructType([StructField(_TEXT, StringType())])
_BEFORE, _AFTER, _ITEMS = "[", "\n,0,0,0,0,0,0,0]", 8
"""A row between these texts is an array of ``_ITEMS`` items if the row is exactly one value."""
_BOM, _LONGEST = "\ufeff", 2**31 - 1
_MAY_HAVE_MORE = r"[}\]]\s*+(?:[^\s,}\]]|,\s*+\S)"
"""Matches each text that continues after its first object or array. Only rows that match are parsed again."""
_OTHER_CHARSETS = frozenset({"UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32"})


@dataclass(frozen=True)
class TrailingText:
    """The rows of JSON files that have more text than Spark reads.

    Almost no batch has such rows. So callers first query :meth:`suspects`, which Spark compiles much faster than
    :meth:`rows`.

    Attributes:
        frame: the lines of the files.
        text: a line without the characters that Spark skips at its beginning.
        options: options of the reader, without the options for the whole file.
    """

    frame: DataFrame
    text: Column
    schema: StructType
    options: Mapping[str, str]

    def suspects(self) -> DataFrame:
        """Return the rows that are not exactly one value by strict JSON rules. They include all of :meth:`rows`."""
        is_suspect = ~_ends_at_first_brace(F.col(_TEXT)) & self.text.rlike(_MAY_HAVE_MORE) & ~_is_single(self.text)
        return self.frame.where(F.coalesce(is_suspect, F.lit(False)))

    def rows(self) -> DataFrame:
        """Return the rows with more text than Spark reads, in the form for a quarantine."""
        file = self.frame.metadataColumn("_metadata")["file_path"]
        has_more = F.coalesce(_has_more(self.text, self.schema, self.options), F.lit(False))
        rows = self.suspects().select(file.alias("file"), self.text.alias("row"), has_more.alias(_HAS_MORE))
        return rows.where(_HAS_MORE).drop(_HAS_MORE).withColumn("reason", F.lit(REASON))


def trailing_text(spark: SparkSession, relation: Any, choose: Callable[[DataFrame], DataFrame]) -> TrailingText | None:
    """Return the check of a relation of JSON files. ``choose`` omits files that the source does not read.

    Return None for a relation of another format, and for a charset that Spark's functions do not support.
    """
    options = options_of(relation)
    charset = charset_of(options)
    if format_of(relation) != "JSON" or charset not in _OTHER_CHARSETS | LIKE_UTF_8:
        return None
    session: Any = spark._jsparkSession
    frame = choose(DataFrame(session.baseRelationToDataFrame(_as_text(spark, relation, options)), spark))
    text = F.col(_TEXT) if charset in LIKE_UTF_8 else F.decode(F.col(_TEXT).cast("binary"), charset)
    text = F.when(text.startswith(_BOM), F.substring(text, 2, _LONGEST)).otherwise(text)
    return TrailingText(frame, text, StructType(own_fields(relation)), row_options(options))


def _as_text(spark: SparkSession, relation: Any, options: Mapping[str, str]) -> Any:
    """Return a relation of the same files with one row for each line, or for each file if ``multiLine`` is on."""
    jvm: Any = spark._jvm
    text_options = {key: value for key, value in options.items() if key in ("linesep", "encoding")}
    if options.get("multiline", "").lower() == "true":
        text_options = {"wholetext": "true"}
    return jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        relation.location(),
        relation.partitionSchema(),
        spark._jsparkSession.parseDataType(_TEXT_SCHEMA.json()),
        relation.bucketSpec(),
        jvm.org.apache.spark.sql.execution.datasources.text.TextFileFormat(),
        jvm.PythonUtils.toScalaMap(text_options),
        spark._jsparkSession,
    )


def _ends_at_first_brace(text: Column) -> Column:
    """Return a column: true if the text has no bracket before its last byte. Most flat objects need no other check.

    Functions over characters, such as ``instr`` and ``length``, would take longer than Spark takes to read the row. So
    only functions over bytes are used.
    """
    before_end = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1).cast("string")
    return ~before_end.contains("}") & ~before_end.contains("]")


def _is_single(text: Column) -> Column:
    """Return a column: true if the text is blank or one value by strict JSON rules."""
    wrapped = F.concat(F.lit(_BEFORE), text, F.lit(_AFTER))
    return F.coalesce(F.json_array_length(wrapped) == _ITEMS, F.lit(False))


def _has_more(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Return a column: true if Spark reads a row of the text and drops the rest. A malformed row gives false."""
    parse_options = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    first = F.from_json(text, StructType([*schema.fields, StructField(CORRUPT, StringType())]), parse_options)
    items = F.from_json(text, "array<string>", parse_options)
    is_read = F.when(text.rlike(r"^\s*\["), items.isNotNull()).otherwise(first[CORRUPT].isNull() & first.isNotNull())

    def is_whole(value: Column) -> Column:
        wrapped = F.concat(F.lit(_BEFORE), value, F.lit(_AFTER))
        return F.coalesce(F.size(F.from_json(wrapped, "array<string>", parse_options)) == _ITEMS, F.lit(False))

    stripped = F.regexp_replace(text, r"(?<=[}\]])[\s,}\]]+$", "")
    return is_read & ~is_whole(text) & ~is_whole(stripped)
