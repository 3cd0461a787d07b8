"""The calls of a POSIX file system that :class:`LocalStorage` is made of.

Nothing here asks ``os.path``: its ``isfile``, ``isdir`` and ``lexists`` answer False to *every* error, and a disk that
fails or a stale handle would be taken for a file that is not there (and a batch that is, for one to write again).
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
"""What says that nothing is there: no such name, or a file where one of its folders would be. Nothing else does."""

TEMPORARY = ".tmp-"
_CHUNK = 1 << 20

Kind = Literal["file", "folder", "other"]


def kind_of(path: str) -> Kind | None:
    """None if nothing is there. Links are followed. Raises OSError for every other answer."""
    try:
        mode = os.stat(path).st_mode
    except ABSENT:
        return None
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def is_taken(path: str) -> bool:
    """Whether the name is in use, by a link to nowhere, too."""
    try:
        os.lstat(path)
    except ABSENT:
        return False
    return True


@contextmanager
def temporary(target: str) -> Iterator[str]:
    """A fresh hidden name beside ``target``, whose folder is made; gone at the end, whatever happened."""
    folder = os.path.dirname(target)
    make_folder(folder)
    name = f"{folder}/{temporary_name(TEMPORARY)}"
    try:
        yield name
    finally:
        unlink(name)


def unlink(path: str) -> None:
    """Silent if absent."""
    try:
        os.unlink(path)
    except ABSENT:
        pass


def make_folder(folder: str) -> None:
    """Make it and what lies above it, each name durable before this returns."""
    if kind_of(folder) == "folder":
        return
    parent = os.path.dirname(folder)
    make_folder(parent)
    make_name(folder)
    sync_folder(parent)


def make_name(folder: str) -> None:
    """The folder alone, in one that is there; not durable yet. Silent if it is there."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        if kind_of(folder) != "folder":
            raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder should be", folder) from None


def missing_folders(folder: str) -> list[str]:
    """``folder`` and those above it that do not exist, the deepest first."""
    missing = []
    while kind_of(folder) is None:
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def is_link(path: str) -> bool:
    """Return whether the name is a link. Where that cannot be seen, whoever uses the name gets the error."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def link_below(top: str, path: str, plain: set[str]) -> str | None:
    """Return the first name below ``top``, down to ``path``, that is a link; None if there is none.

    ``plain``: names that are known to be no links. Folders that are found to be none are added.
    """
    at = len(top.rstrip(os.sep))
    while 0 <= at < len(path):
        at = path.find(os.sep, at + 1)
        name = path if at < 0 else path[:at]
        if name in plain:
            continue
        if is_link(name):
            return name
        if at >= 0:
            plain.add(name)
    return None


def open_regular(path: str) -> BinaryIO:
    """Open a file to read it, buffered. A pipe that nobody writes to would be waited for, SIGTERM included.

    Raises IsADirectoryError for a folder, and OSError for a link (ELOOP), a pipe, a device or a socket (EINVAL).
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
    """Write a file that is not there yet. A link of its name is not followed."""
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


def same_content(one: str, other: str) -> bool:
    """Not filecmp: it remembers its answer by names, sizes and times, and a file may be replaced within a tick."""
    if os.path.samefile(one, other):
        return True
    with open_regular(one) as first, open_regular(other) as second:
        while True:
            left, right = first.read(_CHUNK), second.read(_CHUNK)
            if left != right:
                return False
            if not left:
                return True


def walk(folder: str, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield (path, bytes) of every file below. Linked folders and what is deleted meanwhile are left out."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except ABSENT:
        return
    for entry in found:
        if is_temporary(entry.name):
            continue
        try:
            is_folder = entry.is_dir()
            if is_folder and entry.is_symlink():
                continue  # what it leads to belongs to somebody else
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
