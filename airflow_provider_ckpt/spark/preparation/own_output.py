"""Checks that a job reads neither its own output nor its own state, also not through symbolic links.

Spark follows links to folders. If a link leads to a folder around it, Spark would read the same files repeatedly.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.spark.errors import OverlappingFoldersError
from airflow_provider_ckpt.spark.query.sources.partition_folders import is_recursive
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.layout import JOURNAL, PARTS
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import is_hidden, lies_in, segments
from airflow_provider_ckpt.storage.opening import canonical_uri, is_local
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.storage.root import ROOT_MARKER
from airflow_provider_ckpt.storage.storage import Storage


def refuse_own_output(job: Job, reads: Mapping[str, SourceReads], root: Location) -> None:
    """Refuse a source that would read files in the folder of any of the job's sinks.

    Raises OverlappingFoldersError.
    """
    folders = [(operator.uid, place) for operator in job.sinks for place in operator.sink.spark_folders(root.options)]
    for uid, read in reads.items():
        for path in read.patterns if read.is_file else ():
            for sink, folder in folders:
                if _reads_folder(segments(path), segments(folder.uri)):
                    raise output_read(uid, redact_uri(path), sink, folder)


def output_read(source: str, path: str, sink: str, folder: Location) -> OverlappingFoldersError:
    """Return the error for a source that reads the folder of a sink."""
    return OverlappingFoldersError(
        "source {source!r} reads {path}, where sink {sink!r} writes ({folder}): the job would read its own output; "
        "give the sink a folder outside of the source's",
        source=source,
        path=path,
        sink=sink,
        folder=folder.for_display(),
    )


def refuse_root_in_source(reads: Mapping[str, SourceReads], root: Storage, job_id: str) -> None:
    """Refuse a source that would read the job's own files under the root.

    A root in a hidden folder below the source's folder is allowed, because Spark ignores hidden folders.

    Raises OverlappingFoldersError.
    """
    root_parts = segments(root.uri)
    for uid, read in reads.items():
        for path in read.patterns if read.is_file else ():
            if _reads_root(segments(path), root_parts, job_id):
                raise root_read(uid, redact_uri(path), root)


def root_read(source: str, path: str, root: Storage) -> OverlappingFoldersError:
    """Return the error for a source that reads the root."""
    return OverlappingFoldersError(
        "source {source!r} reads {path}, which overlaps with the root {root}: the job would read its own state. Give "
        "the root a folder outside of the source's",
        source=source,
        path=path,
        root=root.uri,
    )


def _reads_root(read: list[str], root: list[str], job_id: str) -> bool:
    """Return whether the pattern ``read`` matches any of the job's files under the root."""
    if not _all_match(read, root):
        return False
    if len(read) <= len(root):
        return not any(map(is_hidden, root[len(read) :]))
    first, *rest = read[len(root) :]
    if _matches(ROOT_MARKER, first):
        return True
    return _matches(job_id, first) and (not rest or any(_matches(part, rest[0]) for part in (*PARTS, JOURNAL)))


def refuse_root_in_output(job: Job, root: Storage, location: Location) -> None:
    """Refuse a root in a sink's folder, and a sink's folder among the files of any job under the root.

    Readers would take files of such a root for data of the sink. Data of such a sink would be deleted with that job.

    Raises OverlappingFoldersError.
    """
    for operator in job.sinks:
        for target in operator.sink.spark_folders(location.options):
            if lies_in(root.uri, target.uri):
                folder = canonical_uri(target.uri).rstrip("/")
                raise OverlappingFoldersError(
                    "the root {root} lies in the folder of sink {sink!r} ({folder}), where readers would take it for "
                    "data; give the root a folder of its own",
                    root=root.uri,
                    sink=operator.uid,
                    folder=folder,
                )
            if lies_in(target.uri, root.uri):
                below = segments(target.uri)[len(segments(root.uri)) :]
                if {*below[1:2]} & {*PARTS, JOURNAL}:
                    raise OverlappingFoldersError(
                        "the folder of sink {sink!r} ({folder}) lies among the files that job {job_id!r} keeps under "
                        "the root {root}, and would be deleted with them; give the sink a folder of its own",
                        sink=operator.uid,
                        folder=target.uri,
                        root=root.uri,
                        job_id=below[0],
                    )


def _reads_folder(read: list[str], written: list[str]) -> bool:
    """Return whether the pattern ``read`` matches any file in the folder ``written``."""
    if not _all_match(read, written):
        return False
    return len(read) <= len(written) or _is_written(read[len(written)])


def _all_match(read: list[str], written: list[str]) -> bool:
    """Return whether each pattern in ``read`` matches the name at its place in ``written``. Ignore surplus parts."""
    return all(_matches(part, pattern) for pattern, part in zip(read, written, strict=False))


def _is_written(pattern: str) -> bool:
    """Return whether a pattern matches files or partition folders directly in a sink's folder."""
    return "=" in pattern or _matches("part-0.parquet", pattern) or _matches("column=value", pattern)


def _matches(part: str, pattern: str) -> bool:
    return part == pattern or fnmatchcase(part, pattern)


@dataclass(frozen=True)
class LinkedFolder:
    """A folder that Spark reaches through a symbolic link.

    Attributes:
        target: the real path of the folder.
        loops: True if ``target`` is a folder around ``path``.
    """

    path: str
    target: str
    loops: bool = False

    def __str__(self) -> str:
        return f"{self.path} (a link to {self.target})"


def refuse_links(job: Job, reads: Mapping[str, SourceReads], root: Storage, location: Location, job_id: str) -> None:
    """Refuse a link below a source's folder that leads to a sink's folder, to the root, or back to a folder around it.

    Raises OverlappingFoldersError.
    """
    folders = [
        (operator.uid, place) for operator in job.sinks for place in operator.sink.spark_folders(location.options)
    ]
    root_parts = segments(root.uri)
    for uid, read in reads.items():
        for link in linked_folders(read):
            target = segments(link.target)
            for sink, folder in folders:
                if _reads_folder(target, segments(folder.uri)):
                    raise output_read(uid, str(link), sink, folder)
            if _reads_root(target, root_parts, job_id):
                raise root_read(uid, str(link), root)
            if link.loops:
                raise OverlappingFoldersError(
                    "source {source!r} reads {path}: the link leads back to a folder around it, so Spark would read "
                    "its files again and again. Remove the link, or give the source a folder without it",
                    source=uid,
                    path=str(link),
                )


def linked_folders(reads: SourceReads) -> Iterator[LinkedFolder]:
    """Yield the links that Spark would follow below a source's local folders. Hidden names are skipped."""
    recursive = is_recursive(reads)
    for path in reads.patterns if reads.is_file else ():
        pattern = _local(path)
        for folder in glob.iglob(pattern) if glob.has_magic(pattern) else [pattern]:
            yield from _below(folder, (os.path.realpath(folder),), recursive)


def _local(path: str) -> str:
    """Return a path or URI as a plain local path; empty for a path in an object store, or for an invalid URI."""
    try:
        return canonical_uri(path).removeprefix("file://") if is_local(path) else ""
    except InvalidStorageUriError:
        return ""


def _below(folder: str, around: tuple[str, ...], recursive: bool) -> Iterator[LinkedFolder]:
    """Yield the links to folders below ``folder``. Unless ``recursive``, enter only folders ``column=value``.

    ``around``: real paths of ``folder`` and of the folders around it.
    """
    with suppress(OSError), os.scandir(folder) as entries:  # another check refuses a folder that cannot be listed
        for entry in entries:
            if is_hidden(entry.name) or not _is_folder(entry) or not (recursive or "=" in entry.name):
                continue
            target = os.path.realpath(entry.path) if entry.is_symlink() else f"{around[0]}/{entry.name}"
            loops = target in around
            if entry.is_symlink() or loops:
                yield LinkedFolder(entry.path, target, loops)
            if not loops:
                yield from _below(entry.path, (target, *around), recursive)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
