"""The entry of a feed: a file in the format of Spark's file sink log, extended to detect a truncated file.

Spark's format is a version, and then a line for each file. Spark accepts an entry that was truncated at the end of a
line, and never reads the missing files. So the line after the version has the number of lines that follow. It has the
form of a folder, which Spark's reader skips (``MetadataLogFileIndex``). The version ``v01`` marks such entries, and
Spark reads it as the number 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

COUNTED = "v01"
_TOO_LARGE = 1 << 63


def encode(lines: Iterable[str], folder: str) -> bytes:
    """Return an entry. ``folder`` is any escaped URI: no reader uses it."""
    lines = list(lines)
    return "\n".join([COUNTED, line(folder, len(lines), 0, is_folder=True), *lines]).encode()


def decode(data: bytes) -> list[str]:
    """Return the lines of an entry, one for each file, without the version and the count.

    Raises ValueError, KeyError or TypeError for data that is no complete entry.
    """
    version, *lines = data.decode().splitlines() or [""]
    if version != COUNTED or not lines:
        raise ValueError(f"begins with {version!r} and has {len(lines)} lines behind it")
    count = _object(lines[0])["size"]
    if count != len(lines) - 1:
        raise ValueError(f"has {len(lines) - 1} of {count} lines")
    return list(map(_checked, lines[1:]))


def line(uri: str, size: int, modified: int, *, is_folder: bool = False) -> str:
    """Return the line of a file, in Spark's format.

    Args:
        uri: Escaped URI.
        size: Size in bytes.
        modified: Milliseconds since 1970.
        is_folder: True for the line with the number of lines.
    """
    return json.dumps(
        {
            "path": uri,
            "size": size,
            "isDir": is_folder,
            "modificationTime": modified,
            "blockReplication": 1,
            "blockSize": 33_554_432,
            "action": "add",
        },
        separators=(",", ":"),
    )


def _checked(text: str) -> str:
    entry = _object(text)
    if not isinstance(entry["path"], str):
        raise ValueError(f"path is {entry['path']!r}")
    for name in ("size", "modificationTime"):
        if type(entry[name]) is not int or not 0 <= entry[name] < _TOO_LARGE:
            raise ValueError(f"{name} is no number of bytes or milliseconds")
    return text


def _object(text: str) -> dict[str, Any]:
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError(f"{text[:40]!r} is no object")
    return body
