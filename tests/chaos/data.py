"""The input of a chaos job: history files, and a feeder that keeps adding live files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

HISTORY_ROWS = 40
LIVE_ROWS = 20
FIRST_LIVE = 1_000_000
FIRST_LATE = 9_000_000


def key(number: int) -> int:
    """Return the key of a row.

    Half of the rows share seven keys, so that state is read and changed all the time. The other rows have a key each,
    so that a later change does not hide a lost one.
    """
    return number % 7 if number % 2 else number + 10


def write_file(path: Path, ids: Iterable[int]) -> None:
    """Write the file so that it appears atomically, because a file source reads every listed file."""
    numbers = list(ids)
    hidden = path.with_name(f".{path.name}")
    parquet.write_table(pa.table({"id": numbers, "k": [key(n) for n in numbers]}), hidden)
    os.rename(hidden, path)


class Input:
    """The input of a job. ``ids``: all rows that the job must release, once each."""

    def __init__(self, base: Path, history_files: int, live: str = "live") -> None:
        """``live``: the folder of live files."""
        self._history, self._live = base / "history", base / live
        self._history.mkdir()
        self._live.mkdir(exist_ok=True)
        self._lock = threading.Lock()
        self._ids: list[int] = []
        self._live_files = 0
        self.late = False
        for number in range(history_files):
            ids = range(number * HISTORY_ROWS, (number + 1) * HISTORY_ROWS)
            write_file(self._history / f"h{number:04d}.parquet", ids)
            self._ids.extend(ids)
        self.add_live()

    @property
    def ids(self) -> list[int]:
        with self._lock:
            return list(self._ids)

    def add_live(self) -> None:
        with self._lock:
            first = FIRST_LIVE + self._live_files * LIVE_ROWS
            ids = range(first, first + LIVE_ROWS)
            write_file(self._live / f"l{self._live_files:06d}.parquet", ids)
            self._live_files += 1
            self._ids.extend(ids)

    def add_late_history(self) -> None:
        """Add a file after history has finished. No run may read it."""
        self.late = True
        write_file(self._history / "late.parquet", range(FIRST_LATE, FIRST_LATE + 5))


class Feeder:
    """A thread that adds a live file every ``every`` seconds until its context is left."""

    def __init__(self, data: Input, every: float = 0.4) -> None:
        self._data, self._every = data, every
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder")

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._done.wait(self._every):
            self._data.add_live()
