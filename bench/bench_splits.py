"""A source with splits, against Spark without the library over the same rows.

    python bench/bench_splits.py [--splits 1000] [--rows 10000000] [--rounds 3]

one    one Spark batch job over all rows: what splitting costs at all
loop   a Spark batch job for each split, four at a time from a pool of threads, which writes a folder each
ckpt   the library: four subtasks, each split staged, synced, published by an entry; checkpoints each second, released
batched  the same with `batched=True`: the function is called once for all that are read together

Each run is a process of its own; the clock runs from the first job to the last (to the last release, for the library),
so the start of the JVM is not in it. The output is counted. Then the library once more, killed with -9 when half of the
splits are done, and run again: how many splits were begun a second time. Target: not more than there are subtasks if a
split takes seconds; of small ones, which are read together, a few seconds of each subtask's work.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data
from bench.one_run import CONF, JOB_ID

SUBTASKS = 4
VARIABLE = "CKPT_BENCH_SPLITS"
LIBRARY = ("ckpt", "batched")


def ranges(splits: int, rows: int) -> list[dict[str, Any]]:
    bounds = [rows * number // splits for number in range(splits + 1)]
    return [{"id": str(n), "from": a, "to": b} for n, (a, b) in enumerate(pairwise(bounds))]


def orders(spark: Any, start: int, end: int) -> Any:
    numbers = spark.range(start, end, numPartitions=1 if end - start < 1_000_000 else None)
    return numbers.selectExpr("id AS order_id", "CAST(id % 100000 AS INT) AS customer", "CAST(id AS DOUBLE) AS amount")


def orders_of(spark: Any, several: list[dict[str, Any]]) -> Any:
    """Of splits that follow each other it makes one range, as one would make one clause of a query."""
    joined: list[list[int]] = []
    for one in several:
        if joined and joined[-1][1] == one["from"]:
            joined[-1][1] = one["to"]
        else:
            joined.append([one["from"], one["to"]])
    return functools.reduce(lambda a, b: a.union(b), [orders(spark, *each) for each in joined])


def build(given: dict[str, Any]) -> Any:
    """The library's job. Each call of the function is noted in a file: whatever is begun twice shows."""
    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)
    asked = os.open(given["asked"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    batched = bool(given.get("batched"))

    @job.source(bounded=True, splits=ranges(given["splits"], given["rows"]), parallelism=SUBTASKS, batched=batched)
    def history(read: Any, split: Any) -> Any:
        several = split if batched else [split]
        os.write(asked, "".join(f"{os.getpid()} {one['id']}\n" for one in several).encode())
        if batched:
            return orders_of(read._spark, several)
        return orders(read._spark, split["from"], split["to"])

    job.sink("out", history, FileSink(given["out"]))
    return job


if VARIABLE in os.environ:
    job = build(json.loads(os.environ[VARIABLE]))


def completes(entry: Path) -> list[str]:
    """The splits that an entry of a subtask's log completes."""
    body = json.loads(entry.read_text())["body"]
    return [*body.get("splits", ()), *([body["split"]] if "split" in body else [])]


class Case:
    def __init__(self, work: Path, splits: int, rows: int) -> None:
        self.work, self.splits, self.rows = work, splits, rows
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.given: dict[str, Any] = {
            "splits": splits,
            "rows": rows,
            "asked": str(work / "asked"),
            "out": str(work / "out"),
        }
        self._completed: dict[Path, list[str]] = {}

    def start(self, engine: str) -> subprocess.Popen[str]:
        self.given["batched"] = engine == "batched"
        environ = {**os.environ, VARIABLE: json.dumps(self.given)}
        command = [sys.executable, __file__, "--engine", engine, "--work", str(self.work)]
        errors = open(self.work / "stderr", "a")  # noqa: SIM115 - the process's
        return subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )

    def seconds(self, engine: str) -> float:
        process = self.start(engine)
        told = process.communicate()[0]
        if process.returncode:
            raise SystemExit(f"{engine} failed:\n{told[-1000:]}\n{(self.work / 'stderr').read_text()[-3000:]}")
        return float(told.splitlines()[-1])

    def asked(self) -> list[tuple[str, str]]:
        """(process, split) of each call of the user's function."""
        lines = Path(self.given["asked"]).read_text().splitlines() if Path(self.given["asked"]).exists() else []
        return [(pid, split) for pid, _, split in (line.partition(" ") for line in lines)]

    def done(self) -> int:
        """Splits that are published: what was seen, since a log is truncated behind a checkpoint."""
        log = self.work / "ckpt" / JOB_ID / "vertices" / "history"
        for path in log.glob("*/log/[0-9]*.json"):
            if path not in self._completed:
                with contextlib.suppress(FileNotFoundError):  # truncated meanwhile
                    self._completed[path] = completes(path)
        return sum(map(len, self._completed.values()))

    def check(self, engine: str) -> None:
        from pyarrow import parquet

        from airflow_provider_ckpt.sinks.manifests import released_files

        out = self.given["out"]
        paths = [one.removeprefix("file://") for one in released_files(out)] if engine in LIBRARY else None
        found = paths if paths is not None else [str(one) for one in Path(out).glob("**/part-*.parquet")]
        rows = sum(parquet.ParquetFile(one).metadata.num_rows for one in found)
        if rows != self.rows:
            raise SystemExit(f"{engine}: {rows} rows, not {self.rows}")


def measured(engine: str, given: dict[str, Any], work: Path) -> float:
    """In a process of its own."""
    from airflow_provider_ckpt.spark.session import build_session

    spark = build_session(JOB_ID, CONF)
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).write.parquet(str(work / f"warm-up-{os.getpid()}"))
    if engine in LIBRARY:
        return _library(work)
    splits, out = ranges(given["splits"], given["rows"]), given["out"]
    begun = time.monotonic()
    if engine == "one":
        orders(spark, 0, given["rows"]).write.parquet(out)
    else:

        def read(split: dict[str, Any]) -> None:
            orders(spark, split["from"], split["to"]).write.parquet(f"{out}/split={split['id']}")

        with ThreadPoolExecutor(SUBTASKS) as pool:
            list(pool.map(read, splits))
    return time.monotonic() - begun


def _library(work: Path) -> float:
    from airflow_provider_ckpt.job.options import RunOptions
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.storage.location import Location

    options = RunOptions(
        job=f"{__file__}:job",
        root=str(work / "ckpt"),
        job_id=JOB_ID,
        mode="streaming",
        checkpoint_interval=1.0,
        conf=CONF,
    )
    told: dict[str, float] = {}
    code = run_job(options, Location(options.root), lambda line: told.update({line.kind: time.monotonic()}))
    if code:
        raise SystemExit(f"exit code {code}")
    return told["released"] - told["running"]


def killed(case: Case) -> tuple[int, int]:
    """(splits done at the kill, splits whose function was called by both drivers for reading)."""
    process = case.start("ckpt")
    while case.done() < case.splits // 2:
        if process.poll() is not None:
            raise SystemExit((case.work / "stderr").read_text()[-3000:])
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = case.done()
    case.seconds("ckpt")
    case.check("ckpt")
    calls = Counter(split for _, split in case.asked())
    calls["0"] -= 2  # each driver plans with the first split
    return done, sum(count > 1 for count in calls.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(measured(args.engine, json.loads(os.environ[VARIABLE]), Path(args.work)))
        return
    base = data.scratch() / "splits"
    times: dict[str, list[float]] = {"one": [], "loop": [], "ckpt": [], "batched": []}
    for _ in range(args.rounds):
        for engine, found in times.items():
            case = Case(base / engine, args.splits, args.rows)
            found.append(case.seconds(engine))
            case.check(engine)
    medians = {engine: statistics.median(found) for engine, found in times.items()}
    print(f"{args.rows:,} rows in {args.splits} splits, {SUBTASKS} at a time; load {os.getloadavg()[0]:.1f}")
    for engine, found in times.items():
        print(f"{engine:7} {medians[engine]:6.1f} s ({', '.join(f'{one:.1f}' for one in found)})")
    for name in LIBRARY:
        loop, one = (medians[name] / medians[other] for other in ("loop", "one"))
        print(f"{name} / loop {loop:.2f}, {name} / one {one:.2f}")
    done, again = killed(Case(base / "killed", args.splits, args.rows))
    print(f"killed with {done} of {args.splits} splits done: {again} begun again ({SUBTASKS} subtasks)")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
