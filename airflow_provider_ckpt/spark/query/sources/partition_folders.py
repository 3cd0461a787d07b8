"""Checks of folders named ``column=value`` whose columns or values do not fit the schema of a source.

Spark misreads some values, because for some types it checks neither their range nor their scale. If a source reads its
folder recursively, Spark takes no columns from folder names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError, UnreadableFileError
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.spark.query.sources.frozen_files import frame_of_existing
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import escaped_glob, normal_path
from airflow_provider_ckpt.storage.redaction import redact_uri

_BITS = {"byte": 8, "short": 16}
_SQL = {"byte": "TINYINT", "short": "SMALLINT"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_RECURSIVE = "recursivefilelookup"


def misread_folder(subject: str, plan: Any) -> UnreadableFileError | None:
    """Return the error for the first folder whose value Spark would misread; None if Spark reads all values correctly.

    Spark 4.2 reads ``p=300`` as the TINYINT 44, and ``p=5`` of Parquet files as the DECIMAL(10,2) 0.05.
    """
    leaves = plan.collectLeaves()
    for index in map(index_of, map(leaves.apply, range(leaves.size()))):
        for column, type_name, value in () if index is None else _folders(index):
            expected = _expected(type_name, value)
            if expected is not None:
                return _unfit_value(subject, column, value, expected)
    return None


def _unfit_value(subject: str, column: str, value: str, type_name: str) -> UnreadableFileError:
    return UnreadableFileError(
        "{subject} cannot read the folder {column}={value}: the schema of the source reads column {column} as {type}, "
        "and the value is not of this type. Nothing of the batch was written. Rename the folder if no batch was "
        "planned with it. Otherwise read the column as STRING, convert it in the function of the source (try_cast "
        "gives null for such a value), and start the job with --resume-failed",
        subject=subject,
        column=column,
        value=value,
        type=type_name,
    )


def _folders(index: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (column, type, value) for each part of a folder's path whose column is BYTE, SHORT or DECIMAL.

    Spark does not check values of these types.
    """
    spec = index.partitionSpec()
    fields = {column["name"]: str(column["type"]) for column in json.loads(spec.partitionColumns().json())["fields"]}
    types = {name: type_name for name, type_name in fields.items() if type_name in _BITS or _DECIMAL.match(type_name)}
    partitions = spec.partitions()
    for number in range(partitions.size() if types else 0):
        for part in partitions.apply(number).path().toString().split("/"):
            name, _, value = part.partition("=")
            if unquote(name) in types:
                yield unquote(name), types[unquote(name)], unquote(value)


def _expected(type_name: str, value: str) -> str | None:
    """Return ``type_name`` as text for a message if Spark would misread ``value`` as this type; otherwise None."""
    try:
        number = None if value == _NULL else Decimal(value)
    except InvalidOperation:
        return None
    if number is None or not number.is_finite():
        return None
    if type_name in _BITS:
        limit = 1 << (_BITS[type_name] - 1)
        return None if -limit <= number < limit else _SQL[type_name]
    precision, scale = map(int, _DECIMAL.match(type_name).groups())  # type: ignore[union-attr]
    _, digits, exponent = number.as_tuple()
    if exponent == -scale and len(digits) <= precision:
        return None
    return f"{type_name.upper()} (whose folders must have {scale} digits after the point)"


_VALUE = re.compile(
    r"\[INVALID_PARTITION_VALUE\] Failed to cast value '(?P<value>.*?)' to data type \"(?P<type>.+?)\" for partition "
    r"column `(?P<column>.+?)`\."
)
_COLUMNS = re.compile(
    r"\[CONFLICTING_PARTITION_COLUMN_NAMES\].*?inconsistent partition column names:\s+(?P<folders>.+?)\s+"
    r"(?:SQLSTATE|\Z)",
    re.DOTALL,
)
_NEW_COLUMN = re.compile(r"assertion failed: Invalid batch: (?P<before>\S+) != (?P<after>\S+)")
_ID = re.compile(r"#\d+L?$")


def unfit_folders(subject: str, text: str) -> CkptError | None:
    """Return the error if Spark failed because of names or values of folders; None if ``text`` has another cause.

    Args:
        subject: source or query that failed, as the first words of the message.
        text: Spark's message.
    """
    value = _VALUE.search(text)
    if value is not None:
        return _unfit_value(subject, value["column"], value["value"], value["type"])
    columns = _COLUMNS.search(text)
    if columns is not None:
        folders = [redact_uri(line.strip()) for line in columns["folders"].splitlines()]
        return UnreadableFileError(
            "{subject} cannot read folders whose names give different columns: {folders}. Nothing of the batch was "
            "written. Give all folders of the source the same columns, or give the source the option "
            "recursiveFileLookup=true, which takes no columns from the names of folders. Then start the job with "
            "--resume-failed",
            subject=subject,
            folders=", ".join(folders),
        )
    batch = _NEW_COLUMN.search(text)
    added = [] if batch is None else sorted(set(_columns(batch["after"])) - set(_columns(batch["before"])))
    if not added:
        return None
    return UnreadableFileError(
        "{subject} began without the column {columns}, which the name of a new folder adds. Nothing of the batch was "
        "written. Give the source the option recursiveFileLookup=true, which takes no columns from the names of "
        "folders, and start the job with --resume-failed. Or run the job under another id, with the column in the "
        "schema of the source",
        subject=subject,
        columns=", ".join(added),
    )


def _columns(listed: str) -> list[str]:
    """Return the column names in a list that Spark has written as ``name#id,name#id``."""
    return [_ID.sub("", column) for column in listed.split(",")]


def refuse_null_columns(spark: SparkSession, job: Job, reads: Mapping[str, SourceReads]) -> None:
    """Refuse a recursive source if a column of its schema exists only in folder names. Spark would read it as null.

    Raises UnfitSourceError.
    """
    for operator in job.sources:
        read = reads.get(operator.uid)
        if read is None or not read.is_file or not is_recursive(read):
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


def is_recursive(reads: SourceReads) -> bool:
    return any(key.lower() == _RECURSIVE and value.strip().lower() == "true" for key, value in reads.options.items())


def _named_by_folders(spark: SparkSession, reads: SourceReads) -> Iterator[tuple[str, str, str]]:
    """Yield (column of the schema, first folder that is named after it, a file in that folder)."""
    names = {} if reads.schema is None else {name.lower(): name for name in reads.schema.names}
    path_parts = {part for path in reads.paths for part in normal_path(path).split("/")}
    frame = frame_of_existing(spark, reads)
    for uri in [] if frame is None else frame.inputFiles():
        for part in normal_path(uri).split("/")[:-1]:
            column = names.get(unquote(part.partition("=")[0]).lower()) if "=" in part else None
            if column is not None and part not in path_parts:
                del names[column.lower()]
                yield column, part, unquote(uri)


def _is_in_file(spark: SparkSession, reads: SourceReads, uri: str, column: str) -> bool:
    """Return whether the column has a value in any row of the file. Return True for an unreadable or missing file, too.

    Another check refuses unreadable files.
    """
    try:
        frame = frame_of_existing(spark, replace(reads, paths=[escaped_glob(uri)]))
        return frame is None or bool(frame.where(F.col(quoted(column)).isNotNull()).take(1))
    except PySparkException:
        return True
