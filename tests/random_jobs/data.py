"""Files of a random job's sources, drawn from the seed, in the order in which the job gets them."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

from tests.random_jobs.definition import Definition, SourceDef
from tests.spark.harness import write_rows

Row = dict[str, Any]
FILE_SECONDS, SPREAD = 10, 15
BEGIN = 1000
"""Event time of the first rows. Spark's event time begins at 1970, so a row from then is late at once."""
LATEST = 80
"""Seconds by which a late row is older than the rows around it, at most."""


def files_of(seed: int, number: int, source: SourceDef) -> list[list[Row]]:
    """Return the rows of each file of a source.

    Rows are out of order within a file and across two, and some occur twice. Only sources with late rows have rows
    later than the delay.
    """
    rng = random.Random(seed * 31 + number)
    files = []
    for file in range(source.files):
        first = BEGIN + source.first + file * FILE_SECONDS
        rows: list[Row] = []
        for row in range(source.rows):
            if rows and rng.random() < 0.15:
                rows.append(rng.choice(rows))
                continue
            where = 10_000_000 * (number + 1) + file * 1000 + row
            rows.append(
                {"id": where, "k": rng.randint(0, 4), "v": rng.randint(0, 99), "second": first + rng.randint(0, SPREAD)}
            )
        files.append(rows)
    if source.late:
        _make_late(random.Random(seed * 31 + number + 7919), files)
    return files


def _make_late(rng: random.Random, files: list[list[Row]]) -> None:
    """Make some rows late, or repeat them in another file. An id still identifies a row."""
    for number in range(1, len(files)):
        for row in files[number]:
            if rng.random() < 0.3:
                row["second"] -= rng.randint(SPREAD, LATEST)
        if rng.random() < 0.5:
            files[number].append(rng.choice(files[rng.randrange(number)]))


def _reading_order(seed: int, source: SourceDef) -> list[int]:
    """Return the place of each file in the order of modification times. History may be in any order."""
    order = list(range(source.files))
    if source.bounded:
        random.Random(f"{seed}/{source.uid}").shuffle(order)
    return order


class Data:
    """Files of a job's sources. ``base/all``: every file, for the comparison; ``base/in``: those the job has got."""

    def __init__(self, base: Path, definition: Definition) -> None:
        self.base, self.definition = base, definition
        self.fed: dict[str, int] = {}
        self._folder = {source.uid: source.folder for source in definition.sources}
        self._began = time.time() - 7200
        self._order = {source.uid: _reading_order(definition.seed, source) for source in definition.sources}
        for number, source in enumerate(sorted(definition.sources, key=lambda one: one.uid)):
            (base / "in" / source.uid).mkdir(parents=True)
            for at, rows in enumerate(files_of(definition.seed, number, source)):
                write_rows(base / "all" / source.uid / self._name(at), rows, self._began + at)
            self.fed[source.uid] = 0
        for source in definition.sources:
            for _ in range(source.files if source.bounded else min(definition.at_start, source.files)):
                self.feed(source.uid)

    def feed(self, uid: str) -> None:
        """Give the job the next file of the source. The file appears atomically."""
        at = self.fed[uid]
        hidden = self.base / self._folder[uid] / uid / f".{at}"
        shutil.copyfile(self.base / "all" / uid / self._name(at), hidden)
        modified = self._began + self._order[uid][at]
        os.utime(hidden, (modified, modified))
        hidden.rename(hidden.with_name(self._name(at)))
        self.fed[uid] = at + 1

    def use(self, definition: Definition) -> None:
        """Copy the files given so far to the folders of the definition. Later files go there, too."""
        for source in definition.sources:
            target = self.base / source.folder / source.uid
            if not target.exists():
                shutil.copytree(self.base / self._folder[source.uid] / source.uid, target, copy_function=shutil.copy2)
            self._folder[source.uid] = source.folder

    def left(self) -> list[str]:
        """Return the live sources with files still to give."""
        return [source.uid for source in self.definition.live if self.fed[source.uid] < source.files]

    @staticmethod
    def _name(at: int) -> str:
        return f"f{at:04d}.parquet"
