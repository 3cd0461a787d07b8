"""Speed of a source with splits, against Spark without the library over the same rows.

    python bench/bench_splits.py [--splits 1000] [--rows 10000000] [--rounds 3] [--csv] [--only one batched]

Spark generates the rows, which takes almost no time, so that the time shows the cost of splits. With --csv each split
is a file, as in an archive.

one    one Spark batch job over all rows, as the base for the cost of splits
loop   a Spark batch job for each split, four at a time from a pool of threads; each job writes a folder
ckpt   the library: four subtasks stage, sync and publish each split by an entry; a checkpoint is released each second
batched  the library with `batched=True`: the function is called once for all splits that are read together

Each run is a process of its own. The clock runs from the first job to the last (to the last release, for the library),
so it leaves out the start of the JVM. The output is counted. Then the library runs once more, is killed with -9 when
half of the splits are done, and runs again. The bench counts the splits that were begun twice. Target: no more than the
number of subtasks if a split takes seconds. For small splits, which are read together, a few seconds of each subtask's
work.
"""

from __future__ import annotations

import argparse
import contextlib
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data
from bench.one_run import CONF, JOB_ID
from bench.split_rows import archive, orders_of, ranges

SUBTASKS = 4
VARIABLE = "CKPT_BENCH_SPLITS"
LIBRARY = ("ckpt", "batched")
ENGINES = ("one", "loop", *LIBRARY)


def splits_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    return ranges(given["splits"], given["rows"], given.get("files"))


def build(given: dict[str, Any]) -> Any:
    """Build the library's job. Its function notes each call in a file, so that splits that are begun twice show."""
    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)
    asked = os.open(given["asked"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    batched = bool(given.get("batched"))

    @job.source(bounded=True, splits=splits_of(given), parallelism=SUBTASKS, batched=batched)
    def history(read: Any, split: Any) -> Any:
        several = split if batched else [split]
        os.write(asked, "".join(f"{os.getpid()} {one['id']}\n" for one in several).encode())
        return orders_of(read._spark, several)

    job.sink("out", history, FileSink(given["out"]))
    return job


if VARIABLE in os.environ:
    job = build(json.loads(os.environ[VARIABLE]))


def completes(entry: Path) -> list[str]:
    """Return the splits that an entry of a subtask's log completes."""
    body = json.loads(entry.read_text())["body"]
    return [*body.get("splits", ()), *([body["split"]] if "split" in body else [])]


class Case:
    def __init__(self, work: Path, splits: int, rows: int, files: str | None) -> None:
        self.work, self.splits, self.rows = work, splits, rows
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.given: dict[str, Any] = {
            "splits": splits,
            "rows": rows,
            "files": files,
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
        """Return process and split of each call of the user's function."""
        lines = Path(self.given["asked"]).read_text().splitlines() if Path(self.given["asked"]).exists() else []
        return [(pid, split) for pid, _, split in (line.partition(" ") for line in lines)]

    def done(self) -> int:
        """Return the number of published splits. Keep seen entries, because checkpoints truncate the logs."""
        log = self.work / "ckpt" / JOB_ID / "vertices" / "history"
        for path in log.glob("*/log/[0-9]*.json"):
            if path not in self._completed:
                with contextlib.suppress(FileNotFoundError):  # truncated meanwhile
                    self._completed[path] = completes(path)
        return sum(map(len, self._completed.values()))

    def check(self, engine: str) -> None:
        from pyarrow import parquet

        from airflow_provider_ckpt.sinks.file.manifests import released_files

        out = self.given["out"]
        paths = [one.removeprefix("file://") for one in released_files(out)] if engine in LIBRARY else None
        found = paths if paths is not None else [str(one) for one in Path(out).glob("**/part-*.parquet")]
        rows = sum(parquet.ParquetFile(one).metadata.num_rows for one in found)
        if rows != self.rows:
            raise SystemExit(f"{engine}: {rows} rows, not {self.rows}")


def measured(engine: str, given: dict[str, Any], work: Path) -> float:
    """Run the engine in this process, which must be its own. Return the seconds."""
    from airflow_provider_ckpt.spark.app.session import build_session

    spark = build_session(JOB_ID, CONF)
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).write.parquet(str(work / f"warm-up-{os.getpid()}"))
    if engine in LIBRARY:
        return _library(work)
    splits, out = splits_of(given), given["out"]
    begun = time.monotonic()
    if engine == "one":
        orders_of(spark, splits).write.parquet(out)
    else:

        def read(split: dict[str, Any]) -> None:
            orders_of(spark, [split]).write.parquet(f"{out}/split={split['id']}")

        with ThreadPoolExecutor(SUBTASKS) as pool:
            list(pool.map(read, splits))
    return time.monotonic() - begun


def _library(work: Path) -> float:
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
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
    code = run_job(RunRequest(options, Location(options.root), lambda line: told.update({line.kind: time.monotonic()})))
    if code:
        raise SystemExit(f"exit code {code}")
    return told["released"] - told["running"]


def killed(case: Case) -> tuple[int, int]:
    """Return the splits that were done at the kill, and the splits that both drivers began to read."""
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
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(measured(args.engine, json.loads(os.environ[VARIABLE]), Path(args.work)))
        return
    base = data.scratch() / "splits"
    files = archive(data.scratch(), args.splits, args.rows) if args.csv else None
    times: dict[str, list[float]] = {engine: [] for engine in args.only}
    for _ in range(args.rounds):
        for engine, found in times.items():
            case = Case(base / engine, args.splits, args.rows, files)
            found.append(case.seconds(engine))
            case.check(engine)
    print(f"{args.rows:,} rows in {args.splits} splits, {SUBTASKS} at a time; load {os.getloadavg()[0]:.1f}")
    tell(times)
    if "ckpt" in times:
        done, again = killed(Case(base / "killed", args.splits, args.rows, files))
        print(f"killed with {done} of {args.splits} splits done: {again} begun again ({SUBTASKS} subtasks)")
    shutil.rmtree(base)


def tell(times: dict[str, list[float]]) -> None:
    medians = {engine: statistics.median(found) for engine, found in times.items()}
    for engine, found in times.items():
        print(f"{engine:7} {medians[engine]:6.1f} s ({', '.join(f'{one:.1f}' for one in found)})")
    for name in [one for one in LIBRARY if one in times]:
        ratios = [
            f"{name} / {other} {medians[name] / medians[other]:.2f}" for other in ("loop", "one") if other in times
        ]
        print(", ".join(ratios))


if __name__ == "__main__":
    main()
