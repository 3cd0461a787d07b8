"""Checks of the files that a batch reads, for files that Spark would misread and for malformed rows.

If Spark fails at a malformed row or at a column of another type, its message has few details. So the file is read
again, alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.app.query_failure import jvm_text
from airflow_provider_ckpt.spark.query.analysed_plan import analysed, each
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.spark.query.sources.malformed import malformed_only
from airflow_provider_ckpt.spark.query.stored_schemas import refuse_foreign_types
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch
from airflow_provider_ckpt.spark.task.batch_files import refuse_unfit_files
from airflow_provider_ckpt.spark.task.errors import UnfitInputError
from airflow_provider_ckpt.spark.task.file_relation import format_of, options_of, own_fields
from airflow_provider_ckpt.spark.task.malformed_reason import UNKNOWN, malformed_reason
from airflow_provider_ckpt.spark.task.malformed_rows import (
    Choose,
    MalformedRows,
    malformed_of_batch,
    malformed_of_frame,
)
from airflow_provider_ckpt.spark.task.terminal_errors import malformed_file, unfit_column
from airflow_provider_ckpt.sparkfiles.seen_files import escaped_glob, normal_path
from airflow_provider_ckpt.storage.redaction import redact_uri

log = logging.getLogger(__name__)

_COLUMN = "__ckpt_row"
_SHOWN = 80
"""Maximum number of characters of a malformed row that the driver's log shows."""
_NAMED = 5
"""Maximum number of faulty columns of a malformed row that an error names."""
_UNREADABLE = "java.lang.UnsupportedOperationException: org.apache.parquet.column.values."
_UNSIGNED = DecimalType(20, 0)
"""Spark's type for an unsigned number of 64 bits."""


def unfit_content(spark: SparkSession, vertex: str, plan: Any, error: BaseException) -> CkptError | None:
    """Return the error for a file whose content made Spark fail; None for any other failure.

    The malformed row is only logged, because it must not reach the journal. ``plan`` is the analysed plan that failed.
    """
    if isinstance(error, CkptError):
        return None
    malformed = malformed_file(error)
    try:
        if malformed is not None:
            return next(_unfit_row(spark, vertex, plan, malformed), None)
        if _UNREADABLE in jvm_text(error):
            return next(_unfit_column(spark, vertex, plan), None)
        return None
    except PySparkException as again:  # then the caller reports the original failure
        log.warning("the file that Spark failed at cannot be read again (%s)", type(again).__name__)
        return None


def _unfit_row(spark: SparkSession, vertex: str, plan: Any, file: str) -> Iterator[UnfitInputError]:
    reading = [relation for relation, files in _relations(plan) if normal_path(file) in map(normal_path, files)]
    for relation in reading:
        frame = _with_malformed(spark, relation, file)
        reason = malformed_reason(spark, relation, _COLUMN, most=_NAMED)
        for row, fault in malformed_only(frame, _COLUMN).select(F.substring(_COLUMN, 1, _SHOWN), reason).take(1):
            shown = redact_uri(file)
            log.error("the row that does not fit the schema, in %s, begins with %s", shown, ascii(row))
            yield UnfitInputError(
                "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema. Nothing of the "
                "batch was released. Correct the file under its name, or give the source on_malformed='count', which "
                "reads such values as nulls and counts the rows. Then start the job with --resume-failed",
                vertex=vertex,
                file=shown,
                where="a row" if fault == UNKNOWN else f"a row ({fault})",
            )


def _unfit_column(spark: SparkSession, vertex: str, plan: Any) -> Iterator[UnfitInputError]:
    """Yield the error for a column of unsigned numbers. Spark's own error names neither file nor column."""
    for relation, files in _relations(plan):
        fields = [field for field in own_fields(relation) if not isinstance(field.dataType, DecimalType)]
        for file in files if format_of(relation) == "Parquet" else ():
            stored = {field.name.lower(): field.dataType for field in _read_parquet(spark, file).schema.fields}
            for field in fields:
                if stored.get(field.name.lower()) == _UNSIGNED:
                    yield unfit_column(vertex, redact_uri(file), field.name, field.dataType.simpleString(), "UINT64")


def _relations(plan: Any) -> Iterator[tuple[Any, list[str]]]:
    for leaf in each(plan.collectLeaves()):
        index = index_of(leaf)
        if index is not None:
            yield leaf.relation(), [str(uri) for uri in index.inputFiles()]


def _with_malformed(spark: SparkSession, relation: Any, file: str) -> DataFrame:
    options = {key: value for key, value in options_of(relation).items() if key not in ("path", "paths")}
    reader = spark.read.format(format_of(relation).lower()).options(**options)
    reader = reader.schema(StructType(own_fields(relation)).add(_COLUMN, StringType()))
    return reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _COLUMN).load(_path(file))


def _read_parquet(spark: SparkSession, file: str) -> DataFrame:
    return refuse_foreign_types(spark.read.parquet(_path(file)))


def _path(uri: str) -> str:
    return escaped_glob(unquote(uri))


@dataclass(frozen=True)
class SourceContent:
    """Checks of file contents for a vertex with sources. ``choose`` omits files that a source does not read."""

    spark: SparkSession
    vertex: str
    streaming: bool
    choose: Choose

    def refuse_unfit(self, frame: DataFrame) -> None:
        """Refuse files before a batch is read. The files of a micro-batch are checked when the batch is planned.

        Raises EmptyFileError, UnreadableFileError, UnfitInputError.
        """
        if not self.streaming:
            refuse_unfit_files(self.spark, self.vertex, self._plan(frame))

    def unfit(self, frame: DataFrame, error: BaseException) -> CkptError | None:
        """Return the error for a file whose content made the batch fail; None for any other failure."""
        return (
            None if isinstance(error, CkptError) else unfit_content(self.spark, self.vertex, self._plan(frame), error)
        )

    def malformed(self, frame: DataFrame, quarantines: Mapping[str, str]) -> MalformedRows:
        """Return the malformed rows of a batch that was read. ``quarantines``: source → sink for its malformed rows.

        Raises UnfitInputError.
        """
        if self.streaming:
            return malformed_of_batch(self.spark, self.vertex, self.choose, quarantines)
        return malformed_of_frame(frame, self.vertex, quarantines)

    def _plan(self, frame: DataFrame) -> Any:
        return execution_of_batch(self.spark, self.vertex).logical() if self.streaming else analysed(frame)
