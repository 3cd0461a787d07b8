"""Table of a race, and the figures in which the library loses."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.race_lap import Lap

OURS, APART, SPARK, FLINK = "ours", "apart", "Spark", "Flink"
OTHERS = (SPARK, FLINK)
Laps = dict[str, list[Lap]]
"""Laps of one case: way -> a lap for each round."""


@dataclass(frozen=True)
class Measure:
    """A measure of a lap. ``of``: returns its value in a lap, or None; ``more_is_better``: true only for rates."""

    name: str
    of: Callable[[Lap], float | None]
    digits: int = 2
    more_is_better: bool = False

    def shown(self, laps: Sequence[Lap]) -> str:
        """Return the median and the range as text."""
        values = [value for lap in laps if (value := self.of(lap)) is not None]
        if not values:
            return "–"
        middle, low, high = (f"{one:.{self.digits}f}" for one in (statistics.median(values), min(values), max(values)))
        return f"{middle} [{low}–{high}]"

    def ratios(self, ours: Sequence[Lap], theirs: Sequence[Lap]) -> list[float]:
        """Return how many times better ours is, for each round that both ran. Below 1 we lose."""
        pairs = [(self.of(mine), self.of(other)) for mine, other in zip(ours, theirs, strict=False)]
        known = [(mine, other) for mine, other in pairs if mine and other]
        return [mine / other if self.more_is_better else other / mine for mine, other in known]


def _of(values: Sequence[float], share: float) -> float | None:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else None


MEASURES = (
    Measure("history, k rows/s", lambda lap: lap.rate, 0, more_is_better=True),
    Measure("CPU, µs a row", lambda lap: lap.cpu),
    Measure("live row → visible, p50 s", lambda lap: _of(lap.seen, 0.5)),
    Measure("live row → visible, p95 s", lambda lap: _of(lap.seen, 0.95)),
    Measure("checkpoint, mean ms", lambda lap: statistics.mean(lap.checkpoints) if lap.checkpoints else None, 0),
    Measure("checkpoint, p95 ms", lambda lap: _of(lap.checkpoints, 0.95), 0),
    Measure("start → first data, s", lambda lap: lap.first, 1),
    Measure("end of history → committed, s", lambda lap: lap.committed),
)


@dataclass(frozen=True)
class Row:
    """A row of the table. ``ratios``: to each of OTHERS, for each round; empty without a figure."""

    block: str
    measure: str
    cells: tuple[str, ...]
    ratios: tuple[list[float], ...]


def rows(block: str, ours: str, laps: Laps) -> Iterator[Row]:
    """Yield the rows of a block. ``ours``: the library's way that the block compares."""
    mine = laps.get(ours, [])
    for measure in MEASURES:
        cells = tuple(measure.shown(laps.get(way, [])) for way in (ours, *OTHERS))
        if cells[0] != "–":
            ratios = tuple(measure.ratios(mine, laps[way]) if way in laps else [] for way in OTHERS)
            yield Row(block, measure.name, cells, ratios)


def table(found: Sequence[Row]) -> str:
    head = ["", "ours", "plain Spark", "Flink", "ours : Spark", "ours : Flink"]
    lines, block = [head], ""
    for row in found:
        if row.block != block:
            block = row.block
            lines.append([block])
        lines.append([f"  {row.measure}", *row.cells, *(_median(ratios) for ratios in row.ratios)])
    widths = [max(len(line[column]) for line in lines if len(line) > 1) for column in range(len(head))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: list[str], widths: list[int]) -> str:
    """Return an aligned line. The name of a block is alone in its line, so it may be longer than its column."""
    return "  ".join(one.ljust(width) for one, width in zip(line, widths, strict=False)).rstrip()


def _median(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}" if ratios else "–"


def losses(found: Sequence[Row]) -> str:
    """Return the losses as text, the worst first. Mark those that occur only in some rounds."""
    lost = []
    for row in found:
        for other, ratios in zip(OTHERS, row.ratios, strict=True):
            if ratios and statistics.median(ratios) < 1:
                lost.append((statistics.median(ratios), max(ratios), row, other))
    lines = ["where we lose (ours at … of the other, median over the rounds)"]
    for ratio, best, row, other in sorted(lost, key=lambda one: one[0]):
        wavers = "" if best < 1 else f"; not in each round: up to {best:.2f}"
        lines.append(f"  {ratio:.2f} of {other}: {row.block}: {row.measure}{wavers}")
    return "\n".join(lines if lost else [*lines, "  nowhere in this run"])
