"""The frozen end of a bounded file source: the list of files that all attempts read (R11). Checks of file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from airflow_provider_ckpt.job.user_failure import PATH_NOT_FOUND, spark_condition
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.spark.query.errors import FrozenListLostError, UnfitSourceError, UnreadableFileError
from airflow_provider_ckpt.spark.query.sources.file_index import beside_partitions, index_of, statuses
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import (
    colon_name,
    glob_name,
    normal_path,
    shown_path,
    without_scheme,
)
from airflow_provider_ckpt.sparkfiles.temporary_names import temporary_names
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document, lost_as
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.storage.storage import Storage

KIND = "frozen-files"
VERSION = 1
LISTING = StructType().add("value", StringType())
"""A schema for readers that only list files, so that Spark does not infer a schema from the files' contents."""
_SUSPICIOUS = re.compile(r"%5B|%5D|%7B|%7D|%3F|%5C|[*\[\]{}?\\]|:(?!/)")


@dataclass(frozen=True)
class FrozenFiles:
    """The frozen list of a source's files. ``files``: URIs as Spark writes them, but with all escapes decoded."""

    uid: str
    files: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.files)

    @property
    def normal(self) -> frozenset[str]:
        return frozenset(unescaped_path(file) for file in self.files)


def unescaped_path(uri: str) -> str:
    """Return a URI without its scheme and leading slashes. ``uri`` must have no escapes."""
    return without_scheme(uri).lstrip("/")


def list_files(spark: SparkSession, reads: SourceReads) -> tuple[str, ...]:
    """Return the sorted URIs of the files that a file source would read now, without escapes. Spark lists the files.

    If the only path does not exist, the result is empty. If any of several paths does not exist, Spark raises an
    AnalysisException.
    """
    frame = _listed(spark, reads)
    return () if frame is None else tuple(sorted(map(unquote, frame.inputFiles())))


def list_statuses(spark: SparkSession, reads: SourceReads) -> list[FileStatus]:
    """Return the files that a source would read now, with sizes and times. Raises what :func:`list_files` raises."""
    frame = _listed(spark, reads)
    if frame is None:
        return []
    plan: Any = frame._jdf.queryExecution().analyzed()
    index = index_of(plan.collectLeaves().head())
    return [] if index is None else statuses(index)


def _listed(spark: SparkSession, reads: SourceReads) -> DataFrame | None:
    """Return the batch frame of a file source, whose plan lists the files; None if the only path does not exist."""
    return frame_of_existing(spark, reads) if len(reads.paths) == 1 else source_frame(spark, reads)


def list_temporary(spark: SparkSession, reads: SourceReads) -> list[str]:
    """Return the files, as paths for messages, that a source leaves out because they have temporary names.

    Raises what :func:`list_files` raises.
    """
    if not reads.name_filter():
        return []
    options = {**reads.options, "pathGlobFilter": temporary_names()}
    return [shown_path(uri) for uri in list_files(spark, replace(reads, options=options, schema=LISTING))]


def refuse_beside_partitions(spark: SparkSession, uid: str, location: str, reads: SourceReads) -> None:
    """Refuse a source with a file next to folders ``column=value``, because Spark would not read this file.

    Raises UnreadableFileError.
    """
    plan: Any = source_frame(spark, reads)._jdf.queryExecution().analyzed()
    index = index_of(plan.collectLeaves().head())
    if index is not None and (path := beside_partitions(index)) is not None:
        raise UnreadableFileError(
            "source {uid!r} ({location}): {path} lies beside folders that are named column=value, and Spark reads "
            "only the files in such folders. Its rows would be missing. Move it into one, or give the source the "
            "option recursiveFileLookup=true, which takes no columns of the folders' names.",
            uid=uid,
            location=location,
            path=path,
        )


def refuse_single_files(spark: SparkSession, uid: str, location: str, reads: SourceReads) -> None:
    """Refuse a streaming source with a path of a file. Patterns are not checked, because they may match files.

    Raises UnfitSourceError.
    """
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for path in reads.paths:
        if glob_name([path]) is not None:
            continue
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        if hadoop_path.getFileSystem(conf).isFile(hadoop_path):
            raise UnfitSourceError(
                "source {uid!r} ({location}) reads {path}, which is a file: Spark streams folders. Name the folder "
                "that it is in, or a pattern for files in it, or run the job in batch mode.",
                uid=uid,
                location=location,
                path=redact_uri(path),
            )


def refuse_unreadable_names(spark: SparkSession, uid: str, location: str, reads: SourceReads) -> None:
    """Refuse a source with a file whose name Spark takes for a pattern, or a local file with a colon in its name.

    Raises UnreadableFileError.
    """
    uris = _suspicious(spark, reads)
    refuse_patterns(uid, location, map(normal_path, uris))
    refuse_colons(uid, location, uris)


def refuse_patterns(uid: str, location: str, paths: Iterable[str]) -> None:
    """Refuse a source if any of ``paths`` has a name that Spark's streaming reader takes for a pattern.

    Raises UnreadableFileError.
    """
    if (path := glob_name(paths)) is not None:
        raise UnreadableFileError(
            "source {uid!r} ({location}) has a file whose name Spark's streaming reader takes for a pattern: {path}. "
            "It would read other files twice. Rename the file and its folders so that they hold none of {{ }} [ ] * ? "
            "\\, or run the job in batch mode.",
            uid=uid,
            location=location,
            path=path,
        )


def refuse_colons(uid: str, location: str, uris: Iterable[str]) -> None:
    """Refuse a source if any of ``uris`` is a file on a local disk with a colon in its name. Spark cannot read it.

    Raises UnreadableFileError.
    """
    if (path := colon_name(uris)) is not None:
        raise UnreadableFileError(
            "source {uid!r} ({location}) has a file with a colon in its name, which Spark cannot read from a local "
            "disk: {path}. Rename the file.",
            uid=uid,
            location=location,
            path=path,
        )


def _suspicious(spark: SparkSession, reads: SourceReads) -> list[str]:
    """Return the URIs of all current files if any URI has a pattern character or a colon; otherwise an empty list."""
    frame = frame_of_existing(spark, reads)
    if frame is None:  # the folder, or files of the pattern, may appear later
        return []
    files: Any = frame._jdf.inputFiles()
    jvm: Any = spark._jvm
    # one call for all names, as there may be many; the URIs in the braces escape all special characters but "*" and ":"
    if not _SUSPICIOUS.search(jvm.org.apache.commons.lang3.ArrayUtils.toString(files)[1:-1]):
        return []
    return list(files)


def frame_of_existing(spark: SparkSession, reads: SourceReads) -> DataFrame | None:
    """Return the frame that a file source would read now; None if a path does not exist."""
    try:
        return source_frame(spark, reads)
    except AnalysisException as error:
        if spark_condition(error) == PATH_NOT_FOUND:
            return None
        raise


def source_frame(spark: SparkSession, reads: SourceReads) -> DataFrame:
    """Return the batch frame that a file source would read now."""
    reader = spark.read.format(reads.format).options(**reads.options, **reads.name_filter())
    if reads.schema is not None:
        reader = reader.schema(reads.schema)
    return reader.load(list(reads.paths))


def without(ends: Mapping[str, Any], forgotten: Collection[str]) -> dict[str, Any]:
    """Return source -> frozen end, without ``forgotten``: files that the user has abandoned (``forget_files``)."""
    paths = {unescaped_path(path) for path in forgotten}
    return {uid: _without(end, paths) if isinstance(end, FrozenFiles) and paths else end for uid, end in ends.items()}


def _without(end: FrozenFiles, paths: Collection[str]) -> FrozenFiles:
    return replace(end, files=tuple(file for file in end.files if unescaped_path(file) not in paths))


def freeze(storage: Storage, path: str, uid: str, files: Iterable[str]) -> FrozenFiles:
    """Write the list and return it. If ``path`` exists already, return the list of the earlier attempt instead."""
    frozen = FrozenFiles(uid, tuple(files))
    document = encode_document(KIND, VERSION, uid=uid, files=list(frozen.files))
    return frozen if storage.create_if_absent(path, document) else read_frozen(storage, path)


def read_frozen(storage: Storage, path: str) -> FrozenFiles:
    """Read a frozen list of files from storage.

    Raises NewerFormatError, FrozenListLostError.
    """
    uri = storage.full_uri(path)
    with lost_as(FrozenListLostError, uri):
        body = decode_document(storage.read(path), KIND, VERSION, uri=uri)
        return FrozenFiles(read_field(body, "uid", reader(str)), read_field(body, "files", reader(tuple[str, ...])))
