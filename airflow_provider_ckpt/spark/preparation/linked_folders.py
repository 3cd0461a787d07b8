"""Symbolic links to folders, below the local folders that sources read.

Spark follows links. So a link below a source's folder may lead to the job's own output. With a link back to a folder
around it, Spark would read the same files again and again.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.spark.errors import OverlappingFoldersError
from airflow_provider_ckpt.spark.preparation.own_output import is_read, output_read, reads_root, root_read
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import is_hidden, segments
from airflow_provider_ckpt.storage.opening import canonical_uri, is_local
from airflow_provider_ckpt.storage.storage import Storage

_RECURSIVE = "recursivefilelookup"


@dataclass(frozen=True)
class LinkedFolder:
    """A link to a folder, or a folder that a link has led back to.

    Attributes:
        target: the real path of the folder.
        loops: ``target`` is one of the folders around ``path``.
    """

    path: str
    target: str
    loops: bool = False

    def __str__(self) -> str:
        return f"{self.path} (a link to {self.target})"


def refuse_links(job: Job, reads: Mapping[str, SourceReads], root: Storage, location: Location, job_id: str) -> None:
    """Refuse links below a source's folder that lead to a sink's folder, to the root, or back to a folder around them.

    Args:
        location: of the root.

    Raises OverlappingFoldersError.
    """
    folders = [(one.uid, place) for one in job.sinks for place in one.sink.spark_folders(location.options)]
    kept = segments(root.uri)
    for uid, read in reads.items():
        for link in linked_folders(read):
            target = segments(link.target)
            for sink, folder in folders:
                if is_read(target, segments(folder.uri)):
                    raise output_read(uid, str(link), sink, folder)
            if reads_root(target, kept, job_id):
                raise root_read(uid, str(link), root)
            if link.loops:
                raise OverlappingFoldersError(
                    "source {source!r} reads {path}: the link leads back to a folder around it, so Spark would read "
                    "its files again and again. Remove the link, or give the source a folder without it",
                    source=uid,
                    path=str(link),
                )


def linked_folders(reads: SourceReads) -> Iterator[LinkedFolder]:
    """Yield the current links to folders that Spark follows. Spark ignores hidden names."""
    recursive = any(key.lower() == _RECURSIVE and value.lower() == "true" for key, value in reads.options.items())
    for path in reads.paths if reads.is_file else ():
        place = _local(path)
        for folder in glob.iglob(place) if glob.has_magic(place) else [place]:
            yield from _below(folder, (os.path.realpath(folder),), recursive)


def _local(path: str) -> str:
    """Return a path of this machine; empty for a path in a store, or for a pattern that is no valid path."""
    try:
        return canonical_uri(path).removeprefix("file://") if is_local(path) else ""
    except InvalidStorageUriError:
        return ""


def _below(folder: str, around: tuple[str, ...], recursive: bool) -> Iterator[LinkedFolder]:
    """Yield the links below a folder. ``around``: real paths of the folder itself and of the folders around it."""
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
