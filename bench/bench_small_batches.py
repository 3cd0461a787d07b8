"""Cost of a micro-batch with little work: one file of 1,000 rows in each, one after the other.

    python bench/bench_small_batches.py [--rounds 3] [--files 200]

ckpt     the library with its defaults
Spark's  the library with Spark's default manager of checkpoint files, which starts a system process for every file
         (``spark/app/session.py`` chooses the manager)
plain    Structured Streaming, with foreachBatch into a folder for each batch

Target: a micro-batch takes no longer than with plain Spark, with checkpoints, manifests and syncs to the disk.
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

ROWS = 1_000
"""Rows in each file. Each file is a micro-batch of its own."""
OTHER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
SIDES = {
    "ckpt": ("ckpt", {}),
    "Spark's": ("ckpt", {"spark.sql.streaming.checkpointFileManagerClass": OTHER}),
    "plain": ("foreachBatch", {}),
}


def measured(side: str, history: data.History) -> dict[str, Any]:
    work = data.scratch() / "small-batches"
    engine, conf = SIDES[side]
    report = start(Run(engine, "A", True, str(work), history.rows, history.folder, files_per_trigger=1, conf=conf))
    shutil.rmtree(work, ignore_errors=True)
    if report["wrong"]:
        raise SystemExit(f"the output of {side} is wrong: {report['wrong']}")
    return report


def show(side: str, report: dict[str, Any]) -> None:
    batches, seconds = report["batches"], report["seconds"] - report["first_batch"]
    ours = report["cores"] * report["seconds"] / batches
    whole = ours + report["cores_of_others"] * report["seconds"] / batches
    print(
        f"{side:8} {(batches - 1) / seconds:5.2f} batches/s, median {report['median_batch'] * 1e3:4.0f} ms; CPU of a "
        f"batch {ours * 1e3:4.0f} ms, with that of other processes {whole * 1e3:4.0f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=200)
    arguments = parser.parse_args()
    os.environ["CKPT_BENCH_FILES"] = str(arguments.files)  # the run reads it, to check the output
    history = data.history(data.scratch(), arguments.files * ROWS)
    print(f"{history.files} files of {ROWS} rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    medians: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(arguments.rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            report = measured(side, history)
            show(side, report)
            medians[side].append(report["median_batch"])
    for side in ("Spark's", "plain"):
        ratios = [ours / other for ours, other in zip(medians["ckpt"], medians[side], strict=True)]
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"a micro-batch: {statistics.median(ratios):.2f} of that of {side} ({each})")


if __name__ == "__main__":
    main()
