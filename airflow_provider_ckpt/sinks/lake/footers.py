"""Row counts and statistics from the footers of staged Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.sinks.errors import StagedFileUnusableError
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.parquet_footers import read_footers
from airflow_provider_ckpt.storage.storage import Storage

Range = tuple[Any, Any, int]
"""(least value, greatest value, number of nulls). The values are None if there are only nulls."""


@dataclass(frozen=True)
class Footer:
    """The footer of a staged file. ``ranges``: column -> range, for columns that are not nested and have statistics."""

    uri: str
    rows: int
    ranges: Mapping[str, Range]

    def whole_numbers(self, columns: Sequence[Column]) -> dict[str, tuple[int | None, int | None, int]]:
        """Return column -> range of ``integer`` and ``long`` columns. Ranges of other types may be inexact."""
        return {
            column.name: self.ranges[column.name]
            for column in columns
            if column.type in ("integer", "long") and column.name in self.ranges
        }

    def refuse_nulls(self, names: Collection[str]) -> None:
        """Refuse a file in which one of the columns may hold a null.

        Raises StagedFileUnusableError.
        """
        for name in names:
            if name not in self.ranges:
                raise StagedFileUnusableError(uri=self.uri, problem=f"it has no statistics of column {name!r}")
            if self.ranges[name][2]:
                raise StagedFileUnusableError(uri=self.uri, problem=f"key column {name!r} is null in some rows")


def footers(storage: Storage, files: Collection[tuple[str, int]]) -> list[Footer]:
    """Return the footer of each file. ``files``: (path, bytes) of each file.

    Raises StagedFileUnusableError, ObjectNotFoundError.
    """
    return [
        _footer(storage.full_uri(path), metadata)
        for (path, _), metadata in zip(files, read_footers(storage, files), strict=True)
    ]


def _footer(uri: str, metadata: Any) -> Footer:
    ranges = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.physical_type == "INT96":
            problem = f"column {column.path!r} holds instants of a kind (INT96) that tables do not take"
            raise StagedFileUnusableError(uri=uri, problem=problem)
        if column.path == column.name and (value_range := _range(metadata, index)) is not None:
            ranges[column.name] = value_range
    return Footer(uri, metadata.num_rows, ranges)


def _range(metadata: Any, index: int) -> Range | None:
    least = greatest = None
    nulls = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        if not statistics.has_min_max:
            return None
        low, high = statistics.min, statistics.max
        least = low if least is None else min(least, low)
        greatest = high if greatest is None else max(greatest, high)
    return least, greatest, nulls
