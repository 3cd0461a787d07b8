"""Figures of one run in a race, from the times of its events and from its visible output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from bench import data
from bench.measure import CpuMeter
from bench.race_plan import RacePlan

COLUMNS = {"A": ["order_id", "customer", "cents", "ts"], "B": ["customer", "n", "cents", "ids"]}


@dataclass(frozen=True)
class Part:
    """A file of the output and its rows. ``at``: when it became visible, in epoch seconds."""

    at: float
    rows: pa.Table


def parts(files: Iterable[Path], plan: RacePlan) -> list[Part]:
    """Return the files with rows, in the order of their appearance, which is a rename and sets st_ctime."""
    found = [Part(file.stat().st_ctime, _read(file, plan)) for file in files if file.stat().st_size]
    return sorted((one for one in found if len(one.rows)), key=lambda one: one.at)


def _read(file: Path, plan: RacePlan) -> pa.Table:
    if plan.writes == "csv":
        return csv.read_csv(file, csv.ReadOptions(column_names=COLUMNS[plan.variant]))
    return parquet.read_table(file, partitioning=None).select(COLUMNS[plan.variant])


def check(found: list[Part], plan: RacePlan, history: data.History) -> None:
    """Check that each row of history is there once, and no live row twice.

    Raises SystemExit.
    """
    rows = pa.concat_tables([one.rows for one in found], promote_options="permissive")
    got, wanted = data.sums(plan.variant, rows), (history.kept, history.id_sum, history.cents_sum)
    if got != wanted:
        raise SystemExit(f"{plan}: rows, sum of ids, sum of cents are {got}, not {wanted}")
    if plan.variant == "A":
        ids = rows["order_id"].to_numpy()
        if len(np.unique(ids)) != len(ids):
            raise SystemExit(f"{plan}: rows appear twice")


def last_of_history(found: list[Part]) -> float:
    """Return when the last row of history appeared, in an output of A."""
    return max(one.at for one in found if one.rows["order_id"].to_numpy().min() < data.LIVE_FROM)


def seen(found: list[Part], live: Path, ended: float) -> tuple[float, ...]:
    """Return the seconds from the appearance of each live file until its last row was visible, in an output of A.

    Only files after the first output count, because the job is not warm before. They must be visible before ``ended``.
    """
    shown: dict[int, float] = {}
    for one in found:
        ids = one.rows["order_id"].to_numpy()
        for number in np.unique((ids[ids >= data.LIVE_FROM] - data.LIVE_FROM) // data.LIVE_ROWS):
            shown[int(number)] = one.at
    came = {number: next(live.glob(f"live-{number:06d}.*")).stat().st_mtime for number in shown}
    return tuple(at - came[n] for n, at in sorted(shown.items()) if found[0].at < came[n] and at <= ended)


@dataclass(frozen=True)
class Lap:
    """The figures of one run.

    Attributes:
        rate: thousand rows of history a second, from the plan of the first file until the last row is visible.
        cpu: µs a row in that time, of all processes.
        first: seconds from the start of the process to the first visible row.
        committed: seconds from the end of the read until the last row is visible.
        seen: see :func:`seen`.
        checkpoints: ms of each checkpoint while history was read.
    """

    rate: float
    cpu: float
    first: float | None
    committed: float | None
    seen: tuple[float, ...] = ()
    checkpoints: tuple[float, ...] = ()


@dataclass(frozen=True)
class Times:
    """The times of one run, in epoch seconds.

    They are: start of the process, plan of the first file, end of the last batch, and visibility of the last row of
    history. A plain query has no commit of its own.
    """

    launched: float
    planned: float
    read: float | None
    visible: float

    def lap(
        self, rows: int, meter: CpuMeter, first: float | None, live: tuple[float, ...], checkpoints: Iterable[float]
    ) -> Lap:
        return Lap(
            rate=rows / (self.visible - self.planned) / 1000,
            cpu=meter.between(self.planned, self.visible) / rows * 1e6,
            first=None if first is None else first - self.launched,
            committed=None if self.read is None else self.visible - self.read,
            seen=live,
            checkpoints=tuple(checkpoints),
        )
