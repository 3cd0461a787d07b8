"""The table of a race, and where the library loses in it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.race_lap import Lap

OURS, APART, SPARK, FLINK = "ours", "apart", "Spark", "Flink"
OTHERS = (SPARK, FLINK)
Laps = dict[str, list[Lap]]
"""Of one case: way -> a lap of each round."""


@dataclass(frozen=True)
class Measure:
    """``of``: its value in a lap, None if it has none; ``more_is_better`` is so of rates alone."""

    name: str
    of: Callable[[Lap], float | None]
    digits: int = 2
    more_is_better: bool = False

    def shown(self, laps: Sequence[Lap]) -> str:
        """Median, and the range of it."""
        values = [value for lap in laps if (value := self.of(lap)) is not None]
        if not values:
            return "–"
        middle, low, high = (f"{one:.{self.digits}f}" for one in (statistics.median(values), min(values), max(values)))
        return f"{middle} [{low}–{high}]"

    def ratios(self, ours: Sequence[Lap], theirs: Sequence[Lap]) -> list[float]:
        """How many times better ours is, in each round that both have run: below 1 we lose it."""
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
    """``ratios``: to each of OTHERS, round by round; empty where there is no such figure."""

    block: str
    measure: str
    cells: tuple[str, ...]
    ratios: tuple[list[float], ...]


def rows(block: str, ours: str, laps: Laps) -> Iterator[Row]:
    """``ours``: the way of the library that this block is about."""
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
    """The name of a block stands alone, and may be longer."""
    return "  ".join(one.ljust(width) for one, width in zip(line, widths, strict=False)).rstrip()


def _median(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}" if ratios else "–"


def losses(found: Sequence[Row]) -> str:
    """The worst first. A loss in some rounds only is said to be one."""
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
