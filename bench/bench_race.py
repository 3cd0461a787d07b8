"""Race of the library, plain Spark and Flink over the same rows. It prints one table, and the figures where we lose.

    python bench/bench_race.py [--rounds 3] [--rows 10000000] [--only csv aggregate] [--flink PYTHON]

Each job reads history (40 files) and a live folder that gets 500 rows each half second, on two cores, with a JVM of 2
to 4 GB. Ours and Flink are exactly-once with a checkpoint each second. The plain query has no checkpoints, and writes a
folder for each micro-batch. Each run is a process of its own. The ways take turns, in reverse order in every second
round, and every output is checked.

csv-parquet  A, filter and projection; CSV read, Parquet written: ours, Spark
csv          A, CSV read and written: ours in one query, ours in a query for history and one for live rows, Flink
parquet      A, Parquet read and written: ours, Spark, Flink (its Parquet format comes from Maven Central, with mvn)
aggregate    B, count and sums by 100,000 customers, CSV read, state in RocksDB: ours and Spark write Parquet, Flink
             discards its rows (they count as visible when a checkpoint after the last row has completed)

Flink: ``python3.11 -m venv ENV && ENV/bin/pip install apache-flink==2.3.0`` (Java 17, Python up to 3.12), then
``--flink ENV/bin/python`` or CKPT_FLINK_PYTHON. Without it, Flink's column is left out.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, flink_jars, race_report
from bench.flink_run import run_flink
from bench.race_lap import Lap
from bench.race_plan import Files, RacePlan
from bench.race_report import APART, FLINK, OURS, SPARK, Laps
from bench.spark_race import run_ours, run_plain

VARIABLE = "CKPT_FLINK_PYTHON"


@dataclass(frozen=True)
class Case:
    """A case of the race. ``blocks``: name of a block of the table, and the library's way that it compares."""

    variant: Literal["A", "B"]
    reads: Files
    writes: Files
    ways: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]


CASES = {
    "csv-parquet": Case("A", "csv", "parquet", (OURS, SPARK), (("A, CSV → Parquet", OURS),)),
    "csv": Case(
        "A",
        "csv",
        "csv",
        (OURS, APART, FLINK),
        (("A, CSV → CSV", OURS), ("A, CSV → CSV, ours with a query for live rows", APART)),
    ),
    "parquet": Case("A", "parquet", "parquet", (OURS, SPARK, FLINK), (("A, Parquet → Parquet", OURS),)),
    "aggregate": Case("B", "csv", "parquet", (OURS, SPARK, FLINK), (("B, CSV → totals in RocksDB", OURS),)),
}


@dataclass(frozen=True)
class Racer:
    """Runs of all ways. ``flink``: a Python with Flink, or None."""

    rows: int | None
    flink: str | None

    def history(self, kind: str) -> data.History:
        return data.history(data.scratch(), self.rows, kind=kind)

    def lap(self, case: Case, way: str) -> Lap:
        work = data.scratch() / "race"
        shutil.rmtree(work, ignore_errors=True)
        history = self.history(case.reads)
        plan = RacePlan(case.variant, case.reads, case.writes, history.folder, str(work), apart=way == APART)
        with data.LiveFeed(Path(plan.live), case.reads):
            if way == FLINK:
                assert self.flink is not None
                lap = run_flink(self.flink, plan, history)
            else:
                lap = (run_plain if way == SPARK else run_ours)(plan, history)
        shutil.rmtree(work)
        return lap


@functools.cache
def missing(flink: str | None, case: Case) -> str | None:
    """Return why Flink takes no part in a case, or None."""
    if FLINK not in case.ways:
        return None
    if flink is None:
        return f"no --flink and no {VARIABLE}"
    try:
        flink_jars.version(flink)
        if case.reads == "parquet":
            flink_jars.classpath(flink)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def run(racer: Racer, only: list[str], rounds: int) -> dict[str, Laps]:
    """Run the cases and return their laps. After an interrupt (Ctrl-C), return the laps so far."""
    laps: dict[str, Laps] = {name: {} for name in only}
    try:
        for number in range(rounds):
            for name in only:
                ways = [way for way in CASES[name].ways if way != FLINK or missing(racer.flink, CASES[name]) is None]
                for way in ways if number % 2 == 0 else ways[::-1]:
                    lap = racer.lap(CASES[name], way)
                    laps[name].setdefault(way, []).append(lap)
                    figures = f"{lap.rate:5.0f} k rows/s  CPU {lap.cpu:5.2f} µs/row"
                    print(f"{number + 1} {name:12} {way:6} {figures}  load {os.getloadavg()[0]:.1f}", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    return laps


def show(laps: dict[str, Laps], flink: str | None) -> None:
    found = [
        row for name in laps for block, ours in CASES[name].blocks for row in race_report.rows(block, ours, laps[name])
    ]
    print("\nMedian [least–most] of the rounds. A ratio shows how many times better ours is: below 1 we lose.\n")
    print(race_report.table(found))
    for name in laps:
        if (why := missing(flink, CASES[name])) is not None:
            print(f"Flink took no part in {name}: {why}")
    print(f"\n{race_report.losses(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of history; 10,000,000")
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--flink", metavar="PYTHON", default=os.environ.get(VARIABLE), help="which has apache-flink")
    given = parser.parse_args()
    racer = Racer(given.rows, given.flink)
    for kind in sorted({CASES[name].reads for name in given.only}):
        history = racer.history(kind)
    print(f"{history.rows:,} rows in {history.files} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    show(run(racer, given.only, given.rounds), given.flink)


if __name__ == "__main__":
    main()
