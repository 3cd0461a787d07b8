"""Durability of files that other programs wrote, and deletion of files of killed processes, on a local disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from airflow_provider_ckpt.concurrency import map_parallel
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.posix import ABSENT, TEMPORARY, sync_file, sync_folder, unlink
from airflow_provider_ckpt.storage.writers import is_temporary_name, is_writer_gone, temporary_name

_THREADS = 8
_MANY = 16
"""Minimum number of files for which threads are used. For 200 files, threads take half the time."""

_FLAGS = {"_SUCCESS", "._SUCCESS.crc"}


def sync_tree(folder: str) -> None:
    """Call fsync for every file below ``folder``, and then for every folder, including ``folder``.

    Spark's checksums (``.x.crc``) are included, because Spark refuses files with a damaged checksum. Spark's flag files
    and this package's temporary files are left out. Files that are deleted meanwhile are skipped.
    """
    files: list[str] = []
    folders: list[str] = []
    _collect_paths(folder, files, folders)
    sync_each(sync_file, files)
    sync_each(sync_folder, folders)


def _collect_paths(folder: str, files: list[str], folders: list[str]) -> None:
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except ABSENT:
        return
    folders.append(folder)
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            _collect_paths(entry.path, files, folders)
        elif _is_data(entry):
            files.append(entry.path)


def _is_data(entry: os.DirEntry[str]) -> bool:
    """Return whether the content of the entry must be on disk.

    Return False for pipes, links, Spark's flag files and this package's temporary files.
    """
    if entry.name in _FLAGS or entry.name.startswith(TEMPORARY):
        return False
    return entry.is_file(follow_symlinks=False)


def sync_each(sync: Callable[[str], None], paths: Sequence[str]) -> None:
    """Call ``sync`` for each path of a file or folder. Skip missing paths."""

    def sync_if_present(path: str) -> None:
        try:
            sync(path)
        except ABSENT:
            pass

    map_parallel(sync_if_present, paths, _THREADS if len(paths) >= _MANY else 1)


def collect_temporary(folder: str, older_than: float, deep: bool) -> int:
    """Delete files of killed processes in ``folder``, and below it if ``deep`` is True. Return their number.

    A file is deleted if its writer is gone, or if its inode has not changed for ``older_than`` seconds by the file
    server's clock. The time of the content does not count, because a copy in progress may be a link to an old file.
    """
    files = temporary(folder, older_than, deep)
    for path, _ in files:
        unlink(path)
    return len(files)


def temporary(folder: str, older_than: float, deep: bool) -> Sizes:
    """Return (full path, bytes) of the files that :func:`collect_temporary` would delete."""
    paths = list(_temporary_files(folder, deep))
    if not paths:
        return []
    now = _file_clock(folder)
    files = []
    for path in paths:
        try:
            status = os.lstat(path)
        except ABSENT:
            continue  # its writer has renamed or deleted it
        if now - status.st_ctime >= older_than or is_writer_gone(os.path.basename(path)):
            files.append((path, status.st_size))
    return files


def _temporary_files(folder: str, deep: bool) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except ABSENT:
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if deep:
                yield from _temporary_files(entry.path, deep)
        elif is_temporary_name(entry.name):
            yield entry.path


def _file_clock(folder: str) -> float:
    """Return the file system's current time in epoch seconds."""
    path = f"{folder}/{temporary_name(TEMPORARY)}"
    try:
        with open(path, "xb") as file:
            return os.fstat(file.fileno()).st_ctime
    finally:
        unlink(path)
