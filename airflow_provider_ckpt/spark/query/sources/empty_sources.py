"""Checks for sources that have nothing to read, or that leave out files in sub-folders.

Typical causes of an empty source are a share that is not mounted, a late partition, and a wrong path. Spark lists files
in sub-folders of a source's folder, but does not read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.definition_parts import selection_options
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.user_failure import PATH_NOT_FOUND, spark_condition
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.spark.query.sources.frozen_files import (
    frame_of_existing,
    list_files,
    list_temporary,
    unescaped_path,
)
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.temporary_names import has_temporary_name
from airflow_provider_ckpt.storage.redaction import redact_uri

_CHOOSE = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"})
"""Reader options, in lower case, by which the user chooses files. With any of them, unread files are not reported."""
_NAMED = 3


@dataclass(frozen=True)
class FilesInSubFolders:
    """The number of files that a source leaves out, and their folders. ``folders``: sorted normal paths."""

    count: int
    folders: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(f"/{redact_uri(folder)}" for folder in self.folders[:_NAMED])
        more = f" and {len(self.folders) - _NAMED} more" if len(self.folders) > _NAMED else ""
        return f"{counted(self.count, 'file')} in {named}{more}"


def unread_below(spark: SparkSession, reads: SourceReads) -> FilesInSubFolders | None:
    """Return the files that a source leaves out because they are in sub-folders; None if it leaves out none.

    Return None also for a source that reads no files, does not exist, or chooses files by options.
    """
    if not reads.is_file or any(key.lower() in _CHOOSE for key in reads.options):
        return None
    frame = frame_of_existing(spark, reads)
    return None if frame is None else _unread_by(frame, reads.skips_temporary)


def leaves_out(spark: SparkSession, sources: Mapping[str, SourceReads]) -> Iterator[str]:
    """Yield a warning for each source that leaves out files in sub-folders."""
    for uid, reads in sources.items():
        files = unread_below(spark, reads)
        if files is not None:
            yield (
                f"source {uid} leaves out {files}: Spark reads the files of a folder, and not those of the folders in "
                "it. To read them, give the source the option recursiveFileLookup=true"
            )


def _unread_by(frame: DataFrame, skips_temporary: bool) -> FilesInSubFolders | None:
    plan: Any = frame._jdf.queryExecution().analyzed()
    index = index_of(plan.collectLeaves().head())
    if index is None or index.leafFiles().size() == index.allFiles().size():
        return None
    read = {normal_path(str(uri)) for uri in index.inputFiles()}
    listed = str(
        index.leafFiles().keys().mkString("\n")
    ).splitlines()  # one call of the JVM, because there may be many files
    unread = [path for path in map(unescaped_path, listed) if path not in read]
    unread = [path for path in unread if not (skips_temporary and has_temporary_name(path))]
    return (
        FilesInSubFolders(len(unread), tuple(sorted({path.rpartition("/")[0] for path in unread}))) if unread else None
    )


_NO_SCHEMA = "UNABLE_TO_INFER_SCHEMA"
"""Spark's error condition if a reader without a schema loads a folder without files."""
_NO_COLUMN = "UNRESOLVED_COLUMN"
"""Start of Spark's error conditions for a missing column, such as the column of folders ``column=value`` without them.
"""


def nothing_in(form: str | None, paths: Iterable[str], selects: Mapping[str, str]) -> str:
    """Return a phrase for messages about an empty source: "no file in <paths>" or "no row to read in <topics>".

    Args:
        form: the source's format. Only "kafka" gives the phrase about topics; None gives the phrase about files.
        paths: paths of a file source.
        selects: options that select topics of a Kafka source.
    """
    if form is not None and form.lower() == "kafka":
        return f"no row to read in {', '.join(selects.values()) or 'its topics'}"
    return f"no file in {', '.join(map(redact_uri, paths))}"


def refuse_empty(spark: SparkSession, uid: str, location: str, reads: SourceReads, files: Sequence[str]) -> None:
    """Refuse a file source if any of its paths has no file. ``files``: result of :func:`list_files` for all its paths.

    Raises NothingToReadError.
    """
    if files and len(reads.paths) == 1:
        return
    ordered = sorted(map(unescaped_path, files))
    for path in reads.paths:
        if _holds_none(spark, reads, path, ordered):
            one_path = replace(reads, paths=[path])
            nothing = nothing_in(reads.format, [path], {}) + _temporary_note(spark, one_path)
            about = {"uid": uid, "location": location, "nothing": nothing}
            below = unread_below(spark, one_path)
            if below is None:
                raise NothingToReadError(**about)
            raise NothingToReadError(
                "bounded source {uid!r} ({location}) has nothing to read: there is {nothing} itself, and there are "
                "{left}. Spark reads the files of a folder, and not those of the folders in it. To read them, give "
                "the source the option recursiveFileLookup=true, or name the folders in its path",
                **about,
                left=str(below),
            )


def _temporary_note(spark: SparkSession, reads: SourceReads) -> str:
    left_out = list_temporary(spark, reads)
    return f" but {len(left_out)} with the names of temporary files ({left_out[0]})" if left_out else ""


def _holds_none(spark: SparkSession, reads: SourceReads, path: str, ordered: Sequence[str]) -> bool:
    """Return whether ``path`` has no file. Spark lists it only if ``ordered`` has neither it nor a path below it."""
    if not ordered:
        return True
    name = unescaped_path(path).rstrip("/")
    for prefix in (name, f"{name}/"):
        index = bisect_left(ordered, prefix)
        if index < len(ordered) and (ordered[index] == name or ordered[index].startswith(f"{name}/")):
            return False
    return not list_files(spark, replace(reads, paths=[path]))


def refuse_without_rows(uid: str, location: str, reads: SourceReads) -> None:
    """Raise the error for a source whose topics have no row, or whose paths have no file.

    Raises NothingToReadError.
    """
    nothing = nothing_in(reads.format, reads.paths, selection_options(reads.options))
    raise NothingToReadError(uid=uid, location=location, nothing=nothing)


def nothing_to_read(
    spark: SparkSession, sources: Iterable[tuple[Operator, SourceReads]], failure: BaseException | None
) -> CkptError | None:
    """Return the error for the first bounded source without files, if ``failure`` is Spark's error of a missing column.

    Return None for another failure, or if all sources have files or may be empty. A user's function may use a column
    of folders ``column=value``, which exists only when the folders exist. So a retry may succeed.
    """
    if not (spark_condition(failure) or "").startswith(_NO_COLUMN):
        return None
    for operator, reads in sources:
        must_have = operator.bounded and not operator.allow_empty and reads.is_file
        if must_have and not list_files(spark, reads):
            nothing = nothing_in(reads.format, reads.paths, {})
            return NothingToReadError(uid=operator.uid, location=operator.location, nothing=nothing)
    return None


def not_there(operator: Operator, reads: SourceReads, failure: BaseException | None) -> CkptError | None:
    """Return the error for a source whose folder is missing or has no file; None if ``failure`` has another cause.

    Spark fails at a folder without files if the reader has no schema. If the source may be empty, return None for this
    failure, because Spark's own error asks for a schema.
    """
    about = {"uid": operator.uid, "location": operator.location}
    if not isinstance(failure, PySparkException) or not reads.paths:
        return None
    condition = spark_condition(failure)
    if condition == PATH_NOT_FOUND:
        path = (failure.getMessageParameters() or {}).get("path") or ", ".join(reads.paths)
        return NothingToReadError(
            "source {uid!r} ({location}) reads {path}, which does not exist. Mount or create the folder, or correct "
            "the path. Another try checks again",
            path=redact_uri(path),
            **about,
        )
    if condition == _NO_SCHEMA and operator.bounded and not operator.allow_empty:
        return NothingToReadError(nothing=nothing_in(reads.format, reads.paths, {}), **about)
    return None
