r"""Hadoop's checksum files next to the files that Spark writes on a local file system: ``.<name>.crc``.

A checksum file has four bytes ``crc\0``, the size of a block, and the CRC-32 of each block. Spark compares the sums
when it reads a file. Copies include the checksum, and files that this package writes for Spark get one. Otherwise a
copy that is cut at the end of a line would seem complete. A file without a checksum counts as complete. An old checksum
next to a new file of the same name counts as damage, so it is deleted first and written last.
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
"""Bytes in a block, Hadoop's default (``file.bytes-per-checksum``). Readers use the size in the checksum file."""


def is_as_written(storage: Storage, path: str, data: bytes) -> bool:
    """Return True if ``data``, read from the file at ``path``, match the file's checksum, or if it has no checksum.

    This costs one read on a local disk. Object stores have no checksum files, so nothing is read there.
    """
    if not _has_checksums(storage):
        return True
    try:
        checksums = storage.read(_checksum_path(path))
    except ObjectNotFoundError:
        return True
    return _matches(checksums, data)


def create(storage: Storage, path: str, data: bytes) -> None:
    """Create a file and then its checksum.

    Raises AlreadyExistsError.
    """
    storage.create(path, data)
    _write(storage, path, data)


def replace(storage: Storage, path: str, data: bytes) -> None:
    """Replace a file and its checksum, in a folder that no process reads."""
    if _has_checksums(storage):
        storage.delete(_checksum_path(path))
    storage.replace(path, data)
    _write(storage, path, data)


def delete(storage: Storage, path: str) -> None:
    """Delete the checksum and then the file, because Hadoop does not write a file whose checksum already exists."""
    if _has_checksums(storage):
        storage.delete(_checksum_path(path))
    storage.delete(path)


def copy_all(storage: Storage, copies: Pairs, is_small: Callable[[str], bool]) -> set[str]:
    """Copy files with their checksums into a folder that no process reads. Return the sources that do not exist.

    ``is_small`` returns True for a small source. If the checksum of such a source is missing, the copy gets one,
    because the writer of the source may have died.
    """
    if not _has_checksums(storage):
        return storage.copy_all(copies)
    # each file just before its checksum, because the folder's owner may live, and replace both under the same name
    pairs = [((source, target), (_checksum_path(source), _checksum_path(target))) for source, target in copies]
    missing = storage.copy_all([*itertools.chain.from_iterable(pairs)])
    for source, target in copies:
        if source not in missing and _checksum_path(source) in missing and is_small(source):
            _write(storage, target, storage.read(target))
    return {source for source, _ in copies if source in missing}


def _write(storage: Storage, path: str, data: bytes) -> None:
    if _has_checksums(storage):
        storage.replace(_checksum_path(path), _MAGIC + struct.pack(">i", _BLOCK) + _sums(data, _BLOCK))


def _has_checksums(storage: Storage) -> bool:
    return storage.uri.startswith("file:")


def _checksum_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def _matches(checksums: bytes, data: bytes) -> bool:
    if len(checksums) < _HEAD or not checksums.startswith(_MAGIC):
        return False
    (block,) = struct.unpack(">i", checksums[len(_MAGIC) : _HEAD])
    if block <= 0:
        return False
    return checksums[_HEAD:] == _sums(data, block)


def _sums(data: bytes, block: int) -> bytes:
    sums = [zlib.crc32(data[start : start + block]) for start in range(0, len(data), block)]
    return struct.pack(f">{len(sums)}I", *sums)
