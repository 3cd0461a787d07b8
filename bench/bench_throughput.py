"""Throughput against plain Structured Streaming. Runs alternate over the same plan and data, each in a new process.

    python bench/bench_throughput.py [--pairs 3] [--only A B] [--rows 10000000]

A   history only, filter + projection -> Parquet files
B   history + live, count and sums by 100,000 customers, update mode -> Parquet files

Sides: ckpt (the library, one query), exchange (the library with chain=False: history is a query of its own and goes
through a result partition), foreachBatch (plain, writes a folder a batch), native (plain, Spark's file sink).

Targets: ckpt at 0.97 of the plain query's rows a second or better, exchange at 0.95 or better.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data
from bench.one_run import Run, start

CASES = {"A": ("ckpt", "foreachBatch", "native"), "B": ("ckpt", "exchange", "foreachBatch")}
OURS = ("ckpt", "exchange")


def planned(case: str, side: str, history: data.History, work: Path) -> Run:
    engine = "ckpt" if side in OURS else side
    return Run(engine, case, side != "exchange", str(work / side), history.rows, history.folder)


def compare(case: str, history: data.History, pairs: int) -> None:
    work = data.scratch() / "throughput"
    taken: dict[str, list[dict[str, Any]]] = {}
    for number in range(pairs):
        # each round begins with another side, so that a drift of the machine affects all sides equally
        for side in CASES[case] if number % 2 == 0 else CASES[case][::-1]:
            report = start(planned(case, side, history, work))
            show(case, number, side, report)
            taken.setdefault(side, []).append(report)
            shutil.rmtree(work, ignore_errors=True)
    for ours in OURS:
        for plain in taken.keys() - set(OURS) if ours in taken else ():
            compare_sides(case, ours, plain, list(zip(taken[ours], taken[plain], strict=True)))


def show(case: str, number: int, side: str, report: dict[str, Any]) -> None:
    released = f" released +{report['released_after']:.2f} s" if "released_after" in report else ""
    print(
        f"{case:3} {number} {side:13} {report['rows_per_second'] / 1e3:7.0f} k rows/s {report['seconds']:6.1f} s "
        f"CPU {report['cpu_us_per_row']:5.2f} µs/row ({report['python_us_per_row']:.2f} in Python)  "
        f"{report['batches']:3} batches, first {report['first_batch']:.2f} s, median {report['median_batch']:.2f} s, "
        f"between {report['between_batches']:.1f} s; cores {report['cores']:.2f}, others' "
        f"{report['cores_of_others']:.2f}{released}",
        flush=True,
    )
    if report["wrong"]:
        raise SystemExit(f"the output of {side} is wrong: {report['wrong']}")


def compare_sides(case: str, ours: str, plain: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    ratios = [a["rows_per_second"] / b["rows_per_second"] for a, b in pairs]
    released = [b["seconds"] / (a["seconds"] + a["released_after"]) for a, b in pairs]
    cpu = [b["cpu_us_per_row"] / a["cpu_us_per_row"] for a, b in pairs]
    print(
        f"{case:3} {ours} / {plain}: {statistics.median(ratios):.3f} of the rows a second (median of "
        f"{', '.join(f'{ratio:.3f}' for ratio in ratios)}); until released {statistics.median(released):.3f}; "
        f"by CPU a row {statistics.median(cpu):.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--rows", type=int)
    arguments = parser.parse_args()
    history = data.history(data.scratch(), arguments.rows)
    print(f"{history.rows:,} rows in {history.files} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for case in arguments.only:
        compare(case, history, arguments.pairs)


if __name__ == "__main__":
    main()
