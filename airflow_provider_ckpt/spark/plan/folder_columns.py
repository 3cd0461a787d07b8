"""Columns in folder names that Spark does not read, because the source reads its folder recursively."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.frozen_files import frame_of_existing
from airflow_provider_ckpt.spark.query.sources.malformed import quoted
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import escaped_glob, normal_path

_RECURSIVE = "recursivefilelookup"


def refuse_null_columns(spark: SparkSession, job: Job, reads: Mapping[str, SourceReads]) -> None:
    """Refuse a source whose schema has a column that only folder names have, because it would be null in each row.

    Raises UnfitSourceError.
    """
    for operator in job.sources:
        read = reads.get(operator.uid)
        if read is None or not read.is_file or not _is_recursive(read):
            continue
        for column, folder, uri in _named_by_folders(spark, read):
            if not _is_in_file(spark, read, uri, column):
                about = {"uid": operator.uid, "location": operator.location}
                raise UnfitSourceError(
                    "source {uid!r} ({location}) has the column {column} in its schema, and reads with "
                    "recursiveFileLookup=true. With this option Spark takes no column from the names of folders "
                    "({folder}), so {column} would be null in each row. Leave the option out: Spark reads files in "
                    "folders named column=value without it. Or leave {column} out of the schema, and take the value "
                    "from _metadata.file_path in the function of the source",
                    **about,
                    column=column,
                    folder=folder,
                )


def _is_recursive(reads: SourceReads) -> bool:
    return any(key.lower() == _RECURSIVE and value.strip().lower() == "true" for key, value in reads.options.items())


def _named_by_folders(spark: SparkSession, reads: SourceReads) -> Iterator[tuple[str, str, str]]:
    """Yield each column of the schema that a folder is named after, with the first such folder and a file in it."""
    names = {} if reads.schema is None else {name.lower(): name for name in reads.schema.names}
    given = {part for path in reads.paths for part in normal_path(path).split("/")}
    frame = frame_of_existing(spark, reads)
    for uri in [] if frame is None else frame.inputFiles():
        for part in normal_path(uri).split("/")[:-1]:
            column = names.get(unquote(part.partition("=")[0]).lower()) if "=" in part else None
            if column is not None and part not in given:
                del names[column.lower()]
                yield column, part, unquote(uri)


def _is_in_file(spark: SparkSession, reads: SourceReads, uri: str, column: str) -> bool:
    """Return whether a row of the file has a value. A file that cannot be read is refused by another rule."""
    try:
        frame = frame_of_existing(spark, replace(reads, paths=[escaped_glob(uri)]))
        return frame is None or bool(frame.where(F.col(quoted(column)).isNotNull()).take(1))
    except PySparkException:
        return True
