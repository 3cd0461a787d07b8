"""The partitions of an Iceberg table as Spark expressions. No I/O.

A file has one value of each partition field. Spark makes folders by transformed *copies* of the columns, so that the
columns themselves stay in the files. pyiceberg reads the partition values from the statistics of these columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.column_name import quoted

COPY = "_ckpt_p"
"""Prefix of the names of copied columns. A number follows."""
_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_DAY = "(unix_micros({0}) - pmod(unix_micros({0}), 86400000000)) / 86400000000"
_HOUR = "(unix_micros({0}) - pmod(unix_micros({0}), 3600000000)) / 3600000000"
_TRUNCATED = ("integer", "long", "string")


@dataclass(frozen=True)
class PartitionField:
    """A partition field of the column ``source``, whose Spark type is ``type``.

    ``transform``: transform in Iceberg's spelling (``day``, ``truncate[10]``).
    """

    name: str
    source: str
    transform: str
    type: Any

    def expression(self) -> str | None:
        """Return a Spark SQL expression with one value for all rows of a partition.

        None if the sink does not support the field's transform for the column's type.
        """
        column = quoted(self.source)
        if self.transform == "identity":
            if not isinstance(self.type, str) or self.type in ("binary", "float", "double"):
                return None
            return _hashed(column) if self.type == "string" else column
        if self.transform in ("year", "month", "day", "hour"):
            return self._time_expression(column)
        width = _TRUNCATE.fullmatch(self.transform)
        if width and self.type in _TRUNCATED:
            if self.type == "string":
                return _hashed(f"substring({column}, 1, {width[1]})")
            return f"cast({column} - pmod({column}, {width[1]}) as long)"
        return None

    def _time_expression(self, column: str) -> str | None:
        """Return the expression for a part of a date or of an instant in UTC; None if the type has no such part."""
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


def _hashed(text: str) -> str:
    """Return an expression that makes Spark use a separate folder for each text.

    Spark puts null, the empty text and the text ``__HIVE_DEFAULT_PARTITION__`` into one folder. A file with nulls *and*
    a text would be in the partition of the text, so queries for nulls would miss it. File systems also refuse long
    names.
    """
    return f"sha2(CAST({text} AS BINARY), 256)"


def refusal(fields: Sequence[PartitionField]) -> str | None:
    """Return why Spark's files cannot be put into partitions of these fields; None if they can."""
    for field in fields:
        if field.expression() is None:
            return (
                f"it is partitioned by {field.transform}({field.source}), which is not done for files that Spark wrote"
            )
    return None


def copy_expressions(fields: Sequence[PartitionField]) -> list[str]:
    """Return the expressions to select in addition to all columns: ``expression AS name``."""
    return [f"{field.expression()} AS `{COPY}{number}`" for number, field in enumerate(fields)]
