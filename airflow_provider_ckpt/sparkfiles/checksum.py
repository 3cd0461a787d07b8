"""The checksums that Hadoop's local file system keeps beside what Spark writes: ``.<name>.crc``.

Four bytes ``crc\\0``, the length of a block, and the CRC-32 of each block. Spark compares them when it reads a
file, and fails in words of its own. A copy takes the checksum along, and what we write for Spark gets one: else what is
cut in a copy, at a line's end, would be whole to everybody. A file without one is whole to Hadoop and to us; a checksum
that is left beside a new file of the same name is damage to both, so it goes first and comes last.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable

from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.paths import Pairs
from airflow_provider_ckpt.storage.storage import Storage

_MAGIC = b"crc\0"
_HEAD = 8
_BLOCK = 512
"""Bytes; Hadoop's default (``file.bytes-per-checksum``). Readers go by what the file says."""


def is_as_written(storage: Storage, path: str, data: bytes) -> bool:
    """Whether ``data`` of the file at ``path`` are those of its checksum; True if it has none. One look, on a local
    disk; none elsewhere: object stores have no such files, and write whole objects or nothing."""
    if not _has_checksums(storage):
        return True
    try:
        told = storage.read(_beside(path))
    except ObjectNotFoundError:
        return True
    return _fits(told, data)


def create(storage: Storage, path: str, data: bytes) -> None:
    """A new file and then its checksum. Raises AlreadyExistsError."""
    storage.create(path, data)
    _write(storage, path, data)


def replace(storage: Storage, path: str, data: bytes) -> None:
    """For a folder that nobody reads yet."""
    if _has_checksums(storage):
        storage.delete(_beside(path))
    storage.replace(path, data)
    _write(storage, path, data)


def delete(storage: Storage, path: str) -> None:
    """The checksum first: Hadoop does not write a file beside whose name there is one."""
    if _has_checksums(storage):
        storage.delete(_beside(path))
    storage.delete(path)


def copy_all(storage: Storage, copies: Pairs, is_small: Callable[[str], bool]) -> set[str]:
    """Copy files (source, target) into a folder that nobody reads yet, with their checksums; returns the sources that
    were not there. ``is_small`` (of a source): one without a checksum gets one: it was copied by a release that left it
    out, or whoever wrote it died before he came to it."""
    if not _has_checksums(storage):
        return storage.copy_all(copies)
    # one behind the other: whose folder it is may be alive, and write another file and checksum of that name
    pairs = [((source, target), (_beside(source), _beside(target))) for source, target in copies]
    missing = storage.copy_all([*itertools.chain.from_iterable(pairs)])
    for source, target in copies:
        if source not in missing and _beside(source) in missing and is_small(source):
            _write(storage, target, storage.read(target))
    return {source for source, _ in copies if source in missing}


def _write(storage: Storage, path: str, data: bytes) -> None:
    if _has_checksums(storage):
        storage.replace(_beside(path), _MAGIC + struct.pack(">i", _BLOCK) + _sums(data, _BLOCK))


def _has_checksums(storage: Storage) -> bool:
    return storage.uri.startswith("file:")


def _beside(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def _fits(told: bytes, data: bytes) -> bool:
    if len(told) < _HEAD or not told.startswith(_MAGIC):
        return False
    (block,) = struct.unpack(">i", told[len(_MAGIC) : _HEAD])
    if block <= 0:
        return False
    return told[_HEAD:] == _sums(data, block)


def _sums(data: bytes, block: int) -> bytes:
    sums = [zlib.crc32(data[start : start + block]) for start in range(0, len(data), block)]
    return struct.pack(f">{len(sums)}I", *sums)
