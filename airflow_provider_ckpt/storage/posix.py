"""POSIX calls for :class:`LocalStorage`.

The module avoids ``os.path``, whose ``isfile``, ``isdir`` and ``lexists`` return False for *every* error. After a disk
error, a published batch would seem to be missing and would be written again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal

from airflow_provider_ckpt.storage.paths import is_temporary
from airflow_provider_ckpt.storage.writers import temporary_name

ABSENT = (FileNotFoundError, NotADirectoryError)
"""Errors for a missing path: the name does not exist, or a file has the name of a folder above it."""

TEMPORARY = ".tmp-"
_CHUNK = 1 << 20

Kind = Literal["file", "folder", "other"]


def kind_of(path: str) -> Kind | None:
    """Return the kind of a path; None if it does not exist. Links are followed. Raises OSError for any other error."""
    try:
        mode = os.stat(path).st_mode
    except ABSENT:
        return None
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def is_taken(path: str) -> bool:
    """Return whether the name is in use, also by a link that leads nowhere."""
    try:
        os.lstat(path)
    except ABSENT:
        return False
    return True


@contextmanager
def temporary(target: str) -> Iterator[str]:
    """Yield a new hidden name in the folder of ``target``, which is created first. At the end, delete the file."""
    folder = os.path.dirname(target)
    make_folder(folder)
    name = f"{folder}/{temporary_name(TEMPORARY)}"
    try:
        yield name
    finally:
        unlink(name)


def unlink(path: str) -> None:
    """Delete a file if it exists."""
    try:
        os.unlink(path)
    except ABSENT:
        pass


def make_folder(folder: str) -> None:
    """Create a folder and its parents, and make each name durable."""
    if kind_of(folder) == "folder":
        return
    parent = os.path.dirname(folder)
    make_folder(parent)
    make_name(folder)
    sync_folder(parent)


def make_name(folder: str) -> None:
    """Create a folder in an existing folder, if it does not exist. It is not made durable."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        if kind_of(folder) != "folder":
            raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder should be", folder) from None


def missing_folders(folder: str) -> list[str]:
    """Return ``folder`` and the folders above it that do not exist, the deepest first."""
    missing = []
    while kind_of(folder) is None:
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def is_link(path: str) -> bool:
    """Return whether the name is a link. Return False after any error: the next use of the name raises it again."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def link_below(top: str, path: str, plain: set[str]) -> str | None:
    """Return the path of the first link from ``top`` (exclusive) down to ``path`` (inclusive); None without a link.

    ``plain`` has paths that are known to be no links. Paths that this call checks are added.
    """
    position = len(top.rstrip(os.sep))
    while 0 <= position < len(path):
        position = path.find(os.sep, position + 1)
        name = path if position < 0 else path[:position]
        if name in plain:
            continue
        if is_link(name):
            return name
        if position >= 0:
            plain.add(name)
    return None


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for buffered reading. Other kinds are refused, because a pipe without a writer would block.

    Raises IsADirectoryError for a folder. Raises OSError for a link (ELOOP), or a pipe, device or socket (EINVAL).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
    raise OSError(errno.EINVAL, "it is not a regular file", path)


def write_durably(path: str, data: bytes) -> None:
    """Write a new file and fsync it. Raises FileExistsError if the name is in use, also by a link."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot fsync a folder
            raise
    finally:
        os.close(descriptor)


def same_content(path: str, other_path: str) -> bool:
    """Return whether two files have the same bytes. filecmp is not used, because its cache may be outdated."""
    if os.path.samefile(path, other_path):
        return True
    with open_regular(path) as first, open_regular(other_path) as second:
        while True:
            chunk, other_chunk = first.read(_CHUNK), second.read(_CHUNK)
            if chunk != other_chunk:
                return False
            if not chunk:
                return True


def walk(folder: str, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield (path, bytes) of every file below a folder. Skip linked folders, and files that are deleted meanwhile."""
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except ABSENT:
        return
    for entry in children:
        if is_temporary(entry.name):
            continue
        try:
            is_folder = entry.is_dir()
            if is_folder and entry.is_symlink():
                continue  # its target may belong to another user
            size = 0 if is_folder else entry.stat().st_size
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            continue  # a link to itself leads to no file
        if is_folder:
            yield from walk(entry.path, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", size
