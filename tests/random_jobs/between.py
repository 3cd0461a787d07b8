"""Bounds of the released output of a job with late rows.

The least output comes from the rows that no operator may drop, the most from all rows. Every operator on the way gives
more rows, or counts more, the more input it gets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.random_jobs.build import plain_frames, united
from tests.random_jobs.data import file_name
from tests.random_jobs.definition import Definition, SinkDef, TransformDef
from tests.random_jobs.functions import HALF, WINDOW_SECONDS
from tests.random_jobs.lateness import Path as Way
from tests.random_jobs.lateness import sure_files
from tests.spark.harness import write_rows

Values = tuple[Any, ...]
Windows = Mapping[int, Counter[int]]
"""Window -> values of its rows."""
FIRST_ID = 10_000_000
"""Smallest id of a row; ids of windows are smaller."""


def between(spark: SparkSession, definition: Definition, sink: SinkDef, way: Way, base: Path) -> Between:
    sure = base / "sure" / sink.uid
    sources = {source.uid: source for source in definition.sources}
    for uid, files in sure_files(definition, way).items():
        (sure / uid).mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(files):
            if rows:
                write_rows(sure / uid / file_name(definition.seed, sources[uid], number), rows)
    least, most = (plain_frames(spark, definition, folder) for folder in (sure, base / "all"))
    return Between(
        least=_rows(least[sink.input]),
        most=_rows(most[sink.input]),
        sure=_windows(least, way.windows),
        possible=_windows(most, way.windows),
    )


def _rows(frame: DataFrame) -> list[Values]:
    return [tuple(row) for row in frame.select("id", "k", "v", F.unix_millis("ts")).collect()]


def _windows(frames: Mapping[str, DataFrame], transform: TransformDef | None) -> Windows:
    values: dict[int, Counter[int]] = defaultdict(Counter)
    if transform is not None:
        for second, k, v in united(frames, transform.inputs).select(F.unix_seconds("ts"), "k", "v").collect():
            values[second // WINDOW_SECONDS * WINDOW_SECONDS * 1000 + k][v] += 1
    return values


@dataclass(frozen=True)
class Between:
    """Bounds of one sink's output.

    ``least``, ``most``: rows. ``sure``, ``possible``: rows of each window, which the window counts.
    """

    least: list[Values]
    most: list[Values]
    sure: Windows
    possible: Windows

    def check(self, sink: SinkDef, released: list[Values]) -> None:
        """Check the released rows.

        Raises AssertionError that names lost and surplus rows.
        """
        if sink.lineage == "last":
            released = list({row[0]: row for row in released}.values())
        extra = self._counted(released) - self._counted(self.most)
        assert not extra, f"{sink.uid}: {sum(extra.values())} rows too many, such as {sorted(extra)[:5]}"
        lost = self._counted(self.least) - self._counted(released)
        assert not lost, f"{sink.uid}: {sum(lost.values())} rows lost that are in time, such as {sorted(lost)[:5]}"
        for row in released:
            if self._window(row) is not None:
                self._check_count(sink, row)

    def _counted(self, rows: Iterable[Values]) -> Counter[Values]:
        """Return the number of each row. The counts of windows are blanked, because they are checked separately."""
        return Counter(row if self._window(row) is None else (row[0], row[1], 0, row[3]) for row in rows)

    def _check_count(self, sink: SinkDef, row: Values) -> None:
        window = self._window(row)
        assert window is not None
        total, n = divmod(row[2], 1000)
        sure, possible = self.sure.get(window, Counter()), self.possible[window]
        counted = f"{sink.uid}: window {row} counts {n} rows, {total} in sum"
        assert sure.total() <= n <= possible.total(), f"{counted}; {sure} are in time, all are {possible}"
        left = total - sum(sure.elements())
        assert left in _sums((possible - sure).elements(), n - sure.total()), f"{counted}; of {sure} and {possible}"

    def _window(self, row: Values) -> int | None:
        """Return the window that the row counts; None if the row is no window."""
        window = int(row[0]) % HALF
        return window if self.possible and window < FIRST_ID else None


def _sums(values: Iterable[int], count: int) -> set[int]:
    """Return all sums of exactly ``count`` of the values."""
    sums = {(0, 0)}
    for value in values:
        sums |= {(n + 1, total + value) for n, total in sums}
    return {total for n, total in sums if n == count}
