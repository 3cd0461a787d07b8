"""The checksums that Hadoop's local file system keeps beside what Spark writes: ``.<name>.crc``.

Four bytes ``crc\\0``, the length of a block, and the CRC-32 of each block. Spark compares them when it reads a
file, and fails in words of its own. What we write ourselves, and what was copied, has none.
"""

from __future__ import annotations

import struct
import zlib

from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.storage import Storage

_MAGIC = b"crc\0"
_HEAD = 8


def is_as_written(storage: Storage, path: str, data: bytes) -> bool:
    """Whether ``data`` of the file at ``path`` are those of its checksum; True if it has none. One look, on a local
    disk; none elsewhere: object stores have no such files, and write whole objects or nothing."""
    if not storage.uri.startswith("file:"):
        return True
    folder, _, name = path.rpartition("/")
    try:
        told = storage.read(f"{folder}/.{name}.crc")
    except ObjectNotFoundError:
        return True
    return _fits(told, data)


def _fits(told: bytes, data: bytes) -> bool:
    if len(told) < _HEAD or not told.startswith(_MAGIC):
        return False
    (block,) = struct.unpack(">i", told[len(_MAGIC) : _HEAD])
    if block <= 0:
        return False
    sums = [zlib.crc32(data[start : start + block]) for start in range(0, len(data), block)]
    return told[_HEAD:] == struct.pack(f">{len(sums)}I", *sums)
