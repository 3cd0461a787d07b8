"""Random jobs with columns of many types, each run in several shapes, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal

from tests.random_jobs.value_types import ATOMS, Kind, draw_kind, variant

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
SHAPES = 3
"""Shapes of each job: whole, cut by a second sink, and another one."""
Order = Literal["early", "late", "mixed"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """How a job is cut and run.

    ``cut``: a sink of its own before the last transform makes two queries. ``consumer``: a second transform reads the
    first one's result. ``apart``: history is a query of its own. ``order``: "early": history ends before the first
    live row comes; "late": all live rows are there at the start. ``stop``: status line at which the job is stopped, to
    be started again.
    """

    cut: bool
    consumer: bool
    apart: bool
    order: Order
    stop: int | None

    @property
    def draws(self) -> list[str]:
        cuts = "whole" if not (self.cut or self.consumer or self.apart) else "cut"
        return [cuts, f"history {self.order}", "restart" if self.stop else "one run"]


@dataclass(frozen=True)
class ValueCase:
    """A job.

    ``history``, ``live``: names and types of the columns, in the order of each source. ``live_first``: the union has
    the live source's order. ``zone``: of the session; ``later_zone``: of a restarted session. ``conf``: settings of
    the session. ``files``: of history and live. ``names_files``: the last transform adds the name of each row's file.
    """

    seed: int
    history: tuple[tuple[str, Kind], ...]
    live: tuple[tuple[str, Kind], ...]
    live_first: bool
    zone: str
    later_zone: str
    conf: tuple[tuple[str, str], ...]
    files: tuple[int, int]
    each: int
    shapes: tuple[Shape, ...]
    names_files: bool

    @property
    def draws(self) -> list[str]:
        kinds = sorted({kind.name for _, kind in self.history})
        drawn = [*kinds, f"zone {self.zone}"]
        drawn += ["names in another case"] if _names(self.history) != _names(self.live) else []
        drawn += ["another zone at a restart"] if self.later_zone != self.zone else []
        drawn += ["fields in another order"] if _inner(self.history) != _inner(self.live) else []
        drawn += ["names of files"] if self.names_files else []
        return [*drawn, *(f"{key}={value}" for key, value in self.conf)]

    def rows(self, source: str) -> list[list[Row]]:
        """Return the rows of each file, by column names in lower case."""
        columns = self.live if source == "live" else self.history
        rng = random.Random(f"{self.seed}/{source}")
        count, first = (self.files[1], 1_000_000) if source == "live" else (self.files[0], 0)
        return [
            [
                {**self._row(rng, columns, first + file * 100 + number), "file": f"{source}/{file_name(file)}"}
                for number in range(self.each)
            ]
            for file in range(count)
        ]

    @staticmethod
    def _row(rng: random.Random, columns: tuple[tuple[str, Kind], ...], number: int) -> Row:
        row = {name.lower(): kind.draw(rng) for name, kind in sorted(columns, key=lambda column: column[0].lower())}
        at = ATOMS["TIMESTAMP"].draw(rng)
        return {**row, "id": number, "at": at, "text": at.strftime("%Y-%m-%d %H:%M:%S.%f")}


FIXED = (("id", Kind("BIGINT")), ("at", Kind("TIMESTAMP")), ("text", Kind("STRING")))
"""Columns of every job. ``text``: a local time, which the session's zone makes an instant."""


def file_name(number: int) -> str:
    return f"{number:04d}.parquet"


def value_case(seed: int) -> ValueCase:
    rng = random.Random(seed * 61 + 29)
    history = [*FIXED, *((f"c{number}", draw_kind(rng)) for number in range(rng.randint(2, 4)))]
    live = [(_cased(rng, name), variant(rng, kind)) for name, kind in history]
    rng.shuffle(live)
    zone = rng.choice(ZONES)
    conf = []
    if rng.random() < 0.4:
        conf.append(("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS"))
    later = rng.choice(ZONES)
    return ValueCase(
        seed=seed,
        history=tuple(history),
        live=tuple(live),
        live_first=rng.random() < 0.5,
        zone=zone,
        later_zone=later,
        conf=tuple(conf),
        files=(rng.randint(1, 3), rng.randint(1, 3)),
        each=rng.randint(2, 5),
        shapes=_shapes(rng),
        names_files=rng.random() < 0.25,
    )


def _cased(rng: random.Random, name: str) -> str:
    return name.upper() if rng.random() < 0.25 else name


def _shapes(rng: random.Random) -> tuple[Shape, ...]:
    """Draw the shapes of a job. All must give the same values."""
    orders: list[Order] = ["early", "late", "mixed"]
    rng.shuffle(orders)
    return (
        Shape(False, False, False, orders[0], _stop(rng)),
        Shape(True, False, rng.random() < 0.3, orders[1], _stop(rng)),
        Shape(rng.random() < 0.3, rng.random() < 0.6, rng.random() < 0.5, orders[2], _stop(rng)),
    )


def _stop(rng: random.Random) -> int | None:
    return rng.randint(2, 6) if rng.random() < 0.4 else None


def _names(columns: tuple[tuple[str, Kind], ...]) -> set[str]:
    return {name for name, _ in columns}


def _inner(columns: tuple[tuple[str, Kind], ...]) -> dict[str, Any]:
    return {name.lower(): kind.inner for name, kind in columns}
