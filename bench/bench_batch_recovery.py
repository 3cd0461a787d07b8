"""Repeated work and time of a batch job of 1,000 splits that is killed with -9 and run again.

    python bench/bench_batch_recovery.py [--splits 1000] [--rows 10000000] [--at 10 50 90]

on     the library with its defaults, which keeps finished work (FLIP-383)
off    the library with batch_recovery=False: the second run starts from scratch
plain  a Spark batch job for each split, four at a time from a pool of threads; a retry starts from scratch, like that
       of a SparkSubmitOperator

Each job is killed when --at per cent of its splits are published (plain: written). Every run is a process of its own
with the same settings. It is timed from its start to its end, with the start of the JVM. Each read of a split is noted
in a file. Ratios compare with a run of the same kind that never fails. In that run, the time of the journal's writes,
flushes and snapshots is measured, too, in all threads. The part of it during which some subtask had nothing to read is
the most by which the journal can lengthen the run.

again     splits that the second run read although the first one had begun to read them
finished  splits of these that were published before the kill

Targets for "on": no finished work is repeated beyond one flush interval. So finished = 0, because each split is
published by an entry of its own, and again <= the number of subtasks. The journal takes at most 1 % of a run that never
fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data
from bench.bench_splits import SUBTASKS, build, completes, splits_of
from bench.journal_time import JournalTime
from bench.one_run import CONF, JOB_ID
from bench.split_rows import orders_of

VARIABLE = "CKPT_BENCH_BATCH_RECOVERY"
ENGINES = ("on", "off", "plain")

if VARIABLE in os.environ:
    job = build(json.loads(os.environ[VARIABLE]))


@dataclass(frozen=True)
class Killed:
    published: int
    again: int
    finished: int
    seconds: float


class Case:
    def __init__(self, work: Path, engine: str, splits: int, rows: int) -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self._work, self._engine, self._splits, self._rows = work, engine, splits, rows
        self._given: dict[str, Any] = {
            "splits": splits,
            "rows": rows,
            "asked": str(work / "asked"),
            "out": str(work / "out"),
        }
        self._seen: dict[Path, list[str]] = {}

    def start(self) -> subprocess.Popen[str]:
        environ = {**os.environ, VARIABLE: json.dumps(self._given)}
        command = [sys.executable, __file__, "--engine", self._engine, "--work", str(self._work)]
        with open(self._work / "stderr", "a") as errors:
            return subprocess.Popen(
                command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )

    def run(self) -> tuple[float, dict[str, float]]:
        """Run the job. Return its seconds, and its measurements of the journal."""
        begun = time.monotonic()
        process = self.start()
        told = process.communicate()[0]
        if process.returncode:
            raise SystemExit(f"{self._engine} failed:\n{told[-1000:]}\n{self._errors()}")
        return time.monotonic() - begun, json.loads(told.splitlines()[-1])

    def killed(self, percent: int) -> Killed:
        begun = time.monotonic()
        process = self.start()
        while len(self.published()) < self._splits * percent // 100:
            if process.poll() is not None:
                raise SystemExit(f"{self._engine} ended:\n{self._errors()}")
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        first, published = time.monotonic() - begun, self.published()
        before = self._read(process.pid)
        second, _ = self.run()
        self.check()
        again = [split for pid in self._pids() - {process.pid} for split in self._read(pid) if split in before]
        return Killed(len(published), len(again), sum(one in published for one in again), first + second)

    def published(self) -> set[str]:
        """Return the published splits. Each file is read only once."""
        if self._engine == "plain":
            return {path.parent.name.partition("=")[2] for path in Path(self._given["out"]).glob("split=*/_SUCCESS")}
        for path in (self._work / "ckpt" / JOB_ID / "vertices" / "history").glob("*/log/[0-9]*.json"):
            if path not in self._seen:
                self._seen[path] = completes(path)
        return {split for splits in self._seen.values() for split in splits}

    def _pids(self) -> set[int]:
        return {int(line.split()[0]) for line in Path(self._given["asked"]).read_text().splitlines()}

    def _read(self, pid: int) -> list[str]:
        """Return the splits that a process read. The library's first call is left out, because it only plans."""
        lines = [line.split() for line in Path(self._given["asked"]).read_text().splitlines()]
        return [split for of, split in lines if int(of) == pid][0 if self._engine == "plain" else 1 :]

    def check(self) -> None:
        from pyarrow import parquet

        from airflow_provider_ckpt.sinks.file.manifests import released_files

        out = self._given["out"]
        plain = self._engine == "plain"
        found = Path(out).glob("split=*/part-*.parquet") if plain else released_files(out)
        rows = sum(parquet.ParquetFile(str(one).removeprefix("file://")).metadata.num_rows for one in found)
        if rows != self._rows:
            raise SystemExit(f"{self._engine}: {rows} rows, not {self._rows}")

    def _errors(self) -> str:
        return (self._work / "stderr").read_text()[-3000:]


def measured(engine: str, given: dict[str, Any], work: Path) -> dict[str, float]:
    """Run the job in this process, which must be its own. Return the measurements."""
    if engine == "plain":
        _plain(given)
        return {}
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
    from airflow_provider_ckpt.storage.location import Location

    options = RunOptions(
        job=f"{__file__}:job",
        root=str(work / "ckpt"),
        job_id=JOB_ID,
        mode="batch",
        batch_recovery=engine == "on",
        conf=CONF,
    )
    journal, begun = JournalTime(), time.monotonic()
    code = run_job(RunRequest(options, Location(options.root), lambda line: None))
    if code:
        raise SystemExit(f"exit code {code}")
    whole = time.monotonic() - begun
    times = {"seconds": journal.seconds, "cpu": journal.cpu, "waited": journal.waited}
    return {**times, "entries": journal.entries, "of": whole}


def _plain(given: dict[str, Any]) -> None:
    from airflow_provider_ckpt.spark.app.session import build_session

    spark, out = build_session(JOB_ID, CONF), given["out"]
    spark.sparkContext.setLogLevel("ERROR")
    shutil.rmtree(out, ignore_errors=True)
    asked = os.open(given["asked"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def read(split: dict[str, Any]) -> None:
        os.write(asked, f"{os.getpid()} {split['id']}\n".encode())
        orders_of(spark, [split]).write.parquet(f"{out}/split={split['id']}")

    with ThreadPoolExecutor(SUBTASKS) as pool:
        list(pool.map(read, splits_of(given)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--at", type=int, nargs="+", default=[10, 50, 90])
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(measured(args.engine, json.loads(os.environ[VARIABLE]), Path(args.work))))
        return
    work = data.scratch() / "batch-recovery"
    never: dict[str, float] = {}
    print(f"{args.rows:,} rows in {args.splits} splits, {SUBTASKS} at a time")
    for engine in ("on", "plain"):
        case = Case(work, engine, args.splits, args.rows)
        never[engine], journal = case.run()
        case.check()
        print(f"{engine}: {never[engine]:.1f} s if it never fails; load {os.getloadavg()[0]:.1f}", flush=True)
        if journal:
            share = 100 * journal["seconds"] / journal["of"]
            told = f"{journal['entries']:.0f} entries, {journal['cpu']:.2f} s of CPU"
            share_waited = 100 * journal["waited"] / journal["of"]
            waited = f"in {journal['waited']:.2f} s of them ({share_waited:.2f} %) a subtask waited"
            print(f"journal: {journal['seconds']:.2f} s, {share:.2f} %; {told}; {waited}", flush=True)
    never["off"] = never["on"]  # the option has no effect on a first run
    print(
        "| killed at | | published | again | finished | both runs | to one that never fails | load |\n"
        + "|---" * 8
        + "|"
    )
    for percent in args.at:
        for engine in ENGINES:
            one = Case(work, engine, args.splits, args.rows).killed(percent)
            ratio = f"{one.seconds / never[engine]:.2f}"
            figures = (
                one.published,
                one.again,
                one.finished,
                f"{one.seconds:.1f} s",
                ratio,
                f"{os.getloadavg()[0]:.1f}",
            )
            print(f"| {percent} % | {engine} | {' | '.join(map(str, figures))} |", flush=True)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
