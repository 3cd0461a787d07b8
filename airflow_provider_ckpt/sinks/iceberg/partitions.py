"""How an Iceberg table is partitioned, in Spark's words. Pure functions, no I/O.

A file has one value of each partition field. Spark makes folders by *copies* of the columns, transformed, so that the
columns stay in the files: the library reads the values off their statistics.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COPY = "_ckpt_p"
"""What the copies are called, and a number behind it."""
_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_DAY = "(unix_micros({0}) - pmod(unix_micros({0}), 86400000000)) / 86400000000"
_HOUR = "(unix_micros({0}) - pmod(unix_micros({0}), 3600000000)) / 3600000000"
_TRUNCATED = ("integer", "long", "string")


@dataclass(frozen=True)
class PartitionField:
    """``transform`` as Iceberg writes it (``day``, ``truncate[10]``); ``source``: the column, of ``type`` in Spark."""

    name: str
    source: str
    transform: str
    type: Any

    def expression(self) -> str | None:
        """In Spark's SQL, a value that is the same for all rows of one partition; None if that cannot be said."""
        column = quoted(self.source)
        if self.transform == "identity":
            if not isinstance(self.type, str) or self.type in ("binary", "float", "double"):
                return None
            return _told_apart(column) if self.type == "string" else column
        if self.transform in ("year", "month", "day", "hour"):
            return self._of_time(column)
        width = _TRUNCATE.fullmatch(self.transform)
        if width and self.type in _TRUNCATED:
            if self.type == "string":
                return _told_apart(f"substring({column}, 1, {width[1]})")
            return f"cast({column} - pmod({column}, {width[1]}) as long)"
        return None

    def _of_time(self, column: str) -> str | None:
        """Of an instant by its day in UTC, whatever the session's zone."""
        days = {
            "date": f"unix_date({column})",
            "timestamp_ntz": f"unix_date(to_date({column}))",
            "timestamp": f"cast({_DAY.format(column)} as int)",
        }.get(self.type)
        if days is None or (self.transform == "hour" and self.type == "date"):
            return None
        if self.transform == "day":
            return days
        if self.transform == "hour":
            if self.type == "timestamp":
                return f"cast({_HOUR.format(column)} as long)"
            return f"{days} * 24 + hour({column})"
        date = f"date_from_unix_date({days})"
        return f"year({date})" if self.transform == "year" else f"year({date}) * 12 + month({date})"


def quoted(name: str) -> str:
    """Return the name of a column in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _told_apart(text: str) -> str:
    """Spark has one folder for null, for the empty text and for the name of that very folder; and a file system none
    with a long name. A file with nulls *and* a text would be in the partition of the text: who asks for nulls would
    pass over it."""
    return f"sha2(CAST({text} AS BINARY), 256)"


def refusal(fields: Sequence[PartitionField]) -> str | None:
    """Why Spark's files cannot be put into such partitions; None if they can."""
    for one in fields:
        if one.expression() is None:
            return f"it is partitioned by {one.transform}({one.source}), which is not done for files that Spark wrote"
    return None


def copies(fields: Sequence[PartitionField]) -> list[str]:
    """What to select besides all columns: ``expression AS name``."""
    return [f"{one.expression()} AS `{COPY}{number}`" for number, one in enumerate(fields)]
