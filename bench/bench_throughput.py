"""Throughput against plain Structured Streaming: same plan, same data, alternating runs, each in a fresh process.

    python bench/bench_throughput.py [--pairs 3] [--only A B B2] [--rows 10000000]

A   history only, filter + projection -> Parquet files
B   history inline + live, count and sums by 100,000 customers, update mode -> Parquet files
B2  B with chain=False: history is a query of its own and goes through a result partition

Targets: A and B at 0.97 of the plain query's rows a second or better, B2 at 0.6 or better.
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

CASES = {"A": ("foreachBatch", "native"), "B": ("foreachBatch",), "B2": ("foreachBatch",)}
"""Case -> the plain engines it is compared with."""


def runs(case: str, history: data.History, work: Path) -> dict[str, Run]:
    variant, chain = case[0], case != "B2"
    return {
        engine: Run(engine, variant, chain, str(work / engine), history.rows, history.folder)
        for engine in ("ckpt", *CASES[case])
    }


def compare(case: str, history: data.History, pairs: int) -> None:
    work = data.scratch() / "throughput"
    taken: dict[str, list[dict[str, Any]]] = {}
    for number in range(pairs):
        planned = runs(case, history, work)
        # each round begins with another side, so that a drift of the machine hits all alike
        order = [*planned] if number % 2 == 0 else [*planned][::-1]
        for engine in order:
            report = start(planned[engine])
            show(case, number, engine, report)
            taken.setdefault(engine, []).append(report)
            shutil.rmtree(work, ignore_errors=True)
    summarise(case, taken)


def show(case: str, number: int, engine: str, report: dict[str, Any]) -> None:
    released = f" released +{report['released_after']:.2f} s" if "released_after" in report else ""
    print(
        f"{case:3} {number} {engine:13} {report['rows_per_second'] / 1e3:7.0f} k rows/s {report['seconds']:6.1f} s "
        f"CPU {report['cpu_us_per_row']:5.2f} µs/row  {report['batches']:3} batches, median "
        f"{report['median_batch']:.2f} s, load {os.getloadavg()[0]:.1f}{released}",
        flush=True,
    )
    if report["wrong"]:
        raise SystemExit(f"the output of {engine} is wrong: {report['wrong']}")


def summarise(case: str, taken: dict[str, list[dict[str, Any]]]) -> None:
    ours = taken.pop("ckpt")
    for engine, plain in taken.items():
        pairs = list(zip(ours, plain, strict=True))
        ratios = [a["rows_per_second"] / b["rows_per_second"] for a, b in pairs]
        released = [b["seconds"] / (a["seconds"] + a["released_after"]) for a, b in pairs]
        cpu = [b["cpu_us_per_row"] / a["cpu_us_per_row"] for a, b in pairs]
        print(
            f"{case:3} ckpt / {engine}: {statistics.median(ratios):.3f} of the rows a second (median of "
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
