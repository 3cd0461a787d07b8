"""The form of the log of Spark's file source: numbered entries, with one line of JSON for each file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

COMPACT = ".compact"
"""End of the name of a compacted entry, which also has the lines of all earlier entries."""
COMPACT_EVERY = 10
"""Spark's default interval between compacted entries (``spark.sql.streaming.fileSource.log.compactInterval``)."""


@dataclass(frozen=True)
class LogLine:
    """A line of an entry. ``time``: modification time of the file, as Spark wrote it."""

    batch: int
    uri: str
    time: Any
    text: str


def entry_number(name: str) -> int:
    """Return the number of an entry; -1 if ``name`` is not the name of an entry."""
    digits = name.removesuffix(COMPACT)
    return int(digits) if digits.isdecimal() else -1


def read_line(text: str) -> LogLine:
    """Parse a line. Raises one of the errors in ``UNREADABLE``."""
    body = json.loads(text)
    return LogLine(int(body["batchId"]), str(body["path"]), body.get("timestamp"), text)


def read_lines(entry: bytes) -> list[LogLine]:
    """Parse the lines of an entry, without the version. Raises one of the errors in ``UNREADABLE``."""
    return [read_line(line) for line in entry.decode().split("\n")[1:] if line]
