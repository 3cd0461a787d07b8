"""A folder that regularly gets a new file, as a live source does."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

SUFFIXES = {"parquet": ".parquet", "csv": ".csv"}


def write(table: pa.Table, path: Path, kind: str) -> None:
    """Write a table to a file. ``kind``: parquet or csv (no header)."""
    if kind == "csv":
        csv.write_csv(table, path, csv.WriteOptions(include_header=False))
    else:
        parquet.write_table(table, path)


class Feed(ABC):
    """A thread that puts a file into a folder each ``every`` seconds, the first one at once. Use it as a context.

    The files are named ``<name>-000001.parquet``, or with another ``kind``.
    """

    def __init__(self, folder: Path, name: str, every: float, kind: str = "parquet") -> None:
        self.folder, self._name, self._every, self._kind = folder, name, every, kind
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        folder.mkdir(parents=True)

    @abstractmethod
    def table(self, number: int) -> pa.Table:
        """Return the rows of the file with that number."""

    def put(self, number: int) -> None:
        """Put one more file. It is complete when it appears."""
        hidden = self.folder / f".{self._name}-{number:06d}"
        write(self.table(number), hidden, self._kind)
        hidden.rename(self.folder / f"{self._name}-{number:06d}{SUFFIXES[self._kind]}")

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 1
        while not self._over.wait(self._every):
            self.put(number)
            number += 1
