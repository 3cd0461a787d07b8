"""Age of the oldest row of each micro-batch when the batch was published, from the files of a job that has run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyarrow import parquet

from bench.data import live_file_of


def latencies(log: Path, live: Path, out: Path, column: str) -> list[tuple[float, float]]:
    """Return the time of publication and the age of the oldest row in seconds, for each released batch.

    Args:
        log: folder of the vertex's log.
        live: folder of the feed.
        out: folder of the vertex's sink.
        column: its greatest value in a batch is the newest row of the feed that the batch has read.
    """
    found, read = [], 0
    for at, handle in _batches(log):
        files = [out / one["target"] for one in handle["files"]]
        if not all(file.exists() for file in files):
            break  # published after the savepoint
        newest = max((_newest(file, column) for file in files), default=-1)
        number = live_file_of(newest)
        if number >= read:
            oldest = (live / f"live-{read:06d}.parquet").stat().st_mtime
            found.append((at, at - oldest))
            read = number + 1
    return found


def _batches(log: Path) -> Iterator[tuple[float, Any]]:
    entries = [(path.stat().st_mtime, json.loads(path.read_text())["body"]) for path in log.glob("[0-9]*.json")]
    for at, body in sorted(entries, key=lambda one: one[0]):
        if body["type"] == "Batch":
            yield at, next(iter(body["handles"].values()))


def _newest(file: Path, column: str) -> int:
    """Return the greatest value of the column, from the statistics in the file's footer."""
    footer = parquet.read_metadata(file)
    index = footer.schema.names.index(column)
    groups = [footer.row_group(number).column(index).statistics for number in range(footer.num_row_groups)]
    return max((one.max for one in groups if one is not None and one.has_min_max), default=-1)
