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
ZONES = ("N4", "1e3", "3000000000", "__HIVE_DEFAULT_PARTITION__", "007", "1.0", "true", "2026-01-01", "a b", "-0")
"""Values of new partition folders. Spark guesses other types from them than from the first one, or another text."""


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
        # a row of another zone has another value, and an id must identify a row
        _make_late(random.Random(seed * 31 + number + 7919), files, repeats=not source.zoned)
    return files


def _make_late(rng: random.Random, files: list[list[Row]], *, repeats: bool) -> None:
    """Make some rows late, or repeat them in another file (``repeats``). An id still identifies a row."""
    for number in range(1, len(files)):
        for row in files[number]:
            if rng.random() < 0.3:
                row["second"] -= rng.randint(SPREAD, LATEST)
        if rng.random() < 0.5 and repeats:
            files[number].append(rng.choice(files[rng.randrange(number)]))


def _reading_order(seed: int, source: SourceDef) -> list[int]:
    """Return the place of each file in the order of modification times. History may be in any order."""
    order = list(range(source.files))
    if source.bounded:
        random.Random(f"{seed}/{source.uid}").shuffle(order)
    return order


def file_name(seed: int, source: SourceDef, at: int) -> str:
    """Return the path of a file in its source's folder. The first zone looks like a number."""
    name = f"f{at:04d}.parquet"
    if not source.zoned:
        return name
    zone = "01" if at == 0 else random.Random(f"{seed}/{source.uid}/{at}").choice([*ZONES, "1"])
    return f"zone={zone}/{name}"


class Data:
    """Files of a job's sources. ``base/all``: every file, for the comparison; ``base/in``: those the job has got."""

    def __init__(self, base: Path, definition: Definition) -> None:
        self.base, self.definition = base, definition
        self.fed: dict[str, int] = {}
        self._folder = {source.uid: source.folder for source in definition.sources}
        self._names = {
            source.uid: [file_name(definition.seed, source, at) for at in range(source.files)]
            for source in definition.sources
        }
        self._began = time.time() - 7200
        self._order = {source.uid: _reading_order(definition.seed, source) for source in definition.sources}
        for number, source in enumerate(sorted(definition.sources, key=lambda source_def: source_def.uid)):
            for folder in ("in", "all"):
                (base / folder / source.uid).mkdir(parents=True)
            for at, rows in enumerate(files_of(definition.seed, number, source)):
                write_rows(base / "all" / source.uid / self._names[source.uid][at], rows, self._began + at)
            self.fed[source.uid] = 0
        for source in definition.sources:
            for _ in range(source.files if source.bounded else min(_at_start(definition, source), source.files)):
                self.feed(source.uid)

    def feed(self, uid: str) -> None:
        """Give the job the next file of the source. The file appears atomically."""
        at = self.fed[uid]
        target = self.base / self._folder[uid] / uid / self._names[uid][at]
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{at}")
        shutil.copyfile(self.base / "all" / uid / self._names[uid][at], hidden)
        modified = self._began + self._order[uid][at]
        os.utime(hidden, (modified, modified))
        hidden.rename(target)
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

    def take_away(self, uid: str, *, leaves_folder: bool) -> None:
        """Move the source's folder out of the job's sight, as a share that is not mounted."""
        folder = self.base / self._folder[uid] / uid
        self._hidden(uid).parent.mkdir(exist_ok=True)
        folder.rename(self._hidden(uid))
        if leaves_folder:
            folder.mkdir()

    def bring_back(self, uid: str) -> None:
        """Undo :meth:`take_away`."""
        folder = self.base / self._folder[uid] / uid
        if folder.exists():
            folder.rmdir()
        self._hidden(uid).rename(folder)

    def _hidden(self, uid: str) -> Path:
        return self.base / "unmounted" / uid


def _at_start(definition: Definition, source: SourceDef) -> int:
    """Return the number of live files at the start. Of zones it is the first one, which looks like a number."""
    return 1 if source.zoned else definition.at_start
