"""Comparison of the files that a micro-batch was planned with and the files that Spark reads for the batch.

Spark lists the planned paths again when it runs a batch. It silently skips a path that has vanished. A name with glob
characters makes Spark read other files of the batch twice. So both lists are compared before staging. If a file
vanishes later, Spark fails the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.spark.query.sources.file_index import beside_partitions, index_of, statuses
from airflow_provider_ckpt.spark.query.sources.file_polls import LONGEST_WAIT, SETTLED, await_settled, statuses_now
from airflow_provider_ckpt.spark.query.sources.orc_columns import unfit_orc_column
from airflow_provider_ckpt.spark.query.sources.partition_folders import misread_folder
from airflow_provider_ckpt.spark.query.sources.unfit_files import unfit_file
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch
from airflow_provider_ckpt.spark.task.errors import FilesSettledError, QueryFailedError, UnfitInputError
from airflow_provider_ckpt.sparkfiles.seen_files import colon_name, glob_name, normal_path, shown_path
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.task.errors import SourceFilesGoneError
from airflow_provider_ckpt.task.read_files import key_of


def refuse_unreadable_names(planned: Mapping[str, Sequence[str]]) -> None:
    """Refuse file names that Spark cannot read. ``planned``: source → URIs in Spark's form.

    Raises UnfitInputError.
    """
    for uid, uris in planned.items():
        if (path := glob_name(map(normal_path, uris))) is not None:
            raise UnfitInputError(
                "source {uid!r} has a file whose name Spark's streaming reader treats as a pattern: {path}. It would "
                "read other files twice. Nothing of the batch was written. Rename the file and its folders so that "
                "they contain none of {{ }} [ ] * ? \\, and resume the job.",
                uid=uid,
                path=path,
            )
        if (path := colon_name(uris)) is not None:
            raise UnfitInputError(
                "source {uid!r} has a file with a colon in its name, which Spark cannot read from a local disk: "
                "{path}. Nothing of the batch was written. Rename the file, and resume the job.",
                uid=uid,
                path=path,
            )


def refuse_other_files(
    vertex: str, uris: Mapping[str, Sequence[str]], read: Iterable[Sequence[FileStatus]]
) -> dict[str, Sequence[FileStatus]]:
    """Refuse a batch that does not read exactly its planned files. Return source → its files.

    Args:
        uris: source → its planned files, in Spark's form.
        read: the files that Spark reads, one list for each file source of the query.

    Raises SourceFilesGoneError for planned files that have vanished, and QueryFailedError for other or repeated files.
    """
    expected = {uid: sorted(map(normal_path, files)) for uid, files in uris.items() if files}
    shown = {normal_path(uri): shown_path(unquote(uri)) for files in uris.values() for uri in files}
    read = list(read)
    read_paths = [sorted(key_of(file.path) for file in files) for files in read]
    present = {path for paths in read_paths for path in paths}
    for uid, paths in expected.items():
        missing = [path for path in paths if path not in present]
        if missing:
            raise SourceFilesGoneError(
                "files that the next batch reads from source {uid!r} are gone: {count} in all, {path} among them. "
                "Nothing of the batch was written. Put the files back and run the job with --resume-failed. To give "
                "up a file that was renamed or deleted, add --forget-file {path} (in Airflow forget_files); the job "
                "shows which files were given up.",
                uid=uid,
                count=len(missing),
                path=shown.get(missing[0], missing[0]),
            )
    of_source: dict[str, Sequence[FileStatus]] = {}
    for uid, paths in expected.items():
        if paths not in read_paths:
            raise QueryFailedError(vertex=vertex, cause=f"Spark reads other files of {uid!r} than it had planned")
        index = read_paths.index(paths)
        del read_paths[index]
        of_source[uid] = read.pop(index)
    return of_source


def refuse_unfit_files(spark: SparkSession, vertex: str, plan: Any) -> None:
    """Refuse a file or folder that Spark would misread. ``plan`` is the analysed plan that reads the files.

    Raises EmptyFileError, UnreadableFileError, UnfitInputError.
    """
    if (misread := misread_folder(f"the query of vertex {vertex!r}", plan)) is not None:
        raise misread
    if (unfit := unfit_file(spark, f"the query of vertex {vertex!r}", plan)) is not None:
        raise unfit
    if (column := unfit_orc_column(spark, plan)) is not None:
        about = {"column": column.column, "expected": column.expected, "actual": column.actual}
        raise UnfitInputError(
            "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file, but "
            "{expected} in the schema. Spark would read values that do not fit as nulls. Nothing of the batch was "
            "released. Write the file again under its name, with the type of the schema, and start the job with "
            "--resume-failed; or run the job under another id, with a schema for both types",
            vertex=vertex,
            file=redact_uri(column.file),
            **about,
        )


def refuse_unsettled(
    spark: SparkSession,
    vertex: str,
    files: Sequence[FileStatus],
    is_over: Callable[[], bool],
    report: Callable[[FileStatus, float], None] = lambda file, seconds: None,
    *,
    waited: float = 0.0,
) -> None:
    """Wait until no file of the batch has changed for some seconds, at most for :data:`LONGEST_WAIT`.

    Spark has already listed the files, and reads a file only up to its listed size.

    Args:
        waited: seconds for which the batch waited before it was restarted. They count for the maximum, too.

    Raises FilesSettledError if the size or time of a file has changed since Spark listed the file.
    """
    earliest = (time.time() - SETTLED) * 1000
    young = [file for file in files if file.modified > earliest]
    if not young or waited >= LONGEST_WAIT:
        return
    paths = [file.path for file in young]
    await_settled(lambda: statuses_now(spark, paths), is_over, report, waited)
    current = {file.path: file for file in statuses_now(spark, paths)}
    grown = [file.path for file in young if current.get(file.path, file) != file]
    if grown:
        raise FilesSettledError(vertex=vertex, file=shown_path(grown[0]))


def files_of_batch(spark: SparkSession, vertex: str) -> list[list[FileStatus]]:
    """Return the files that the current micro-batch reads, one list for each file source.

    Tables and files that the query joins are not sources. Call this in the thread that runs ``foreachBatch``. The cost
    is about ten calls to the JVM for each source.

    Raises UnfitInputError.
    """
    indexes = _indexes(spark, vertex)
    for index in indexes:
        if (path := beside_partitions(index)) is not None:
            raise UnfitInputError(
                "vertex {vertex!r}: {path} lies next to folders that are named column=value, and Spark reads only the "
                "files in such folders. Nothing of the batch was written. The batch is planned with it: run the job "
                "under another job id, with the file in such a folder, or with the source's option "
                "recursiveFileLookup=true.",
                vertex=vertex,
                path=path,
            )
    return [statuses(index) for index in indexes]


def largest_of_batch(spark: SparkSession, vertex: str) -> int:
    """Return the bytes that the current micro-batch reads from its largest file source; 0 without a file source."""
    return max((int(index.sizeInBytes()) for index in _indexes(spark, vertex)), default=0)


def _indexes(spark: SparkSession, vertex: str) -> list[Any]:
    leaves = execution_of_batch(spark, vertex).logical().collectLeaves()
    streams = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
    return [index for index in map(index_of, streams) if index is not None]
