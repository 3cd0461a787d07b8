"""An entry of a feed: a file of the log of Spark's file sink, in which it also shows that the file was cut.

Spark's form is a version, and then a line for each file. One that ends early is whole to Spark, and what it does not
name is never read. So the line behind the version says how many follow: as a folder, which Spark's reader leaves out
(``MetadataLogFileIndex``). The version tells such an entry from those of before: Spark reads ``v01`` as the number 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

COUNTED = "v01"
UNCOUNTED = "v1"
"""As entries were written before they had a count."""
_TOO_LARGE = 1 << 63


def encode(lines: Iterable[str], folder: str) -> bytes:
    """``lines``: see :func:`line`; ``folder``: any escaped URI, which nobody looks at."""
    lines = list(lines)
    return "\n".join([COUNTED, line(folder, len(lines), 0, is_folder=True), *lines]).encode()


def decode(data: bytes) -> list[str]:
    """The lines of files. Raises ValueError, KeyError, TypeError for what is no whole entry."""
    version, *lines = data.decode().splitlines() or [""]
    if version == UNCOUNTED:
        return list(map(_checked, lines))
    if version != COUNTED or not lines:
        raise ValueError(f"begins with {version!r} and has {len(lines)} lines behind it")
    count = _object(lines[0])["size"]
    if count != len(lines) - 1:
        raise ValueError(f"has {len(lines) - 1} of {count} lines")
    return list(map(_checked, lines[1:]))


def line(uri: str, size: int, modified: int, *, is_folder: bool = False) -> str:
    """What Spark has to know of a file. ``modified``: milliseconds since 1970."""
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
