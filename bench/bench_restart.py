"""Failure of one of two queries: a restart of its subtask alone, against a restart of the whole job.

    python bench/bench_restart.py [--rounds 3]

The job has two queries, each with a live feed and a sink. A batch of the first query fails once. alone:
``restart_attempts`` is 1. whole: there are no restarts, and the job is run again at once, as by a supervisor without a
pause (a new JVM).

gap    from the failure to the next published batch of the failed query
other  the longest time between two published batches of the other query; usual: the median of these times

Target: the gap at most 0.6 of that of the whole job, and no delay of the other query.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.job.options.run_options import RunOptions
from bench import data, plans
from bench.one_run import CONF, JOB_ID

VARIABLE = "CKPT_BENCH_RESTART"
BEFORE, AFTER = 12, 12
"""Published batches of the failing query before its failure, and after it."""


def build(work: Path) -> Any:
    from pyspark.sql.functions import udf

    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)
    fails, failed = work / "fail", work / "failed"

    @udf("BIGINT")
    def brittle(number: int) -> int:
        if fails.exists():
            fails.unlink()
            failed.write_text(str(time.time()))
            raise OSError("the service does not answer")
        return number

    for name in ("first", "other"):

        @job.source(uid=f"live_{name}")
        def live(read: Any, name: str = name) -> Any:
            return read.schema(plans.SCHEMA).parquet(str(work / "live"))

        @job.transform(inputs=[f"live_{name}"], uid=name)
        def result(rows: Any, name: str = name) -> Any:
            return rows.withColumn("order_id", brittle("order_id")) if name == "first" else rows

        job.sink(f"out_{name}", name, FileSink(str(work / f"out_{name}")))
    return job


if VARIABLE in os.environ:
    job = build(Path(os.environ[VARIABLE]))


class Driver:
    def __init__(self, work: Path, restarts: int) -> None:
        self.work = work
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.options = RunOptions(
            job=f"{__file__}:job",
            root=str(work / "ckpt"),
            job_id=JOB_ID,
            checkpoint_interval=1.0,
            restart_attempts=restarts,
            restart_delay=0.0,
            conf=CONF,
        )

    def start(self) -> subprocess.Popen[bytes]:
        body = json.dumps(self.options.to_json())
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", body]
        home = str(Path(__file__).resolve().parent.parent)
        environ = {**os.environ, VARIABLE: str(self.work), "PYTHONPATH": home}
        errors = open(self.work / "stderr", "ab")  # noqa: SIM115 - the process's
        return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=errors)

    def published(self, vertex: str) -> list[float]:
        """Return the times when batches were published, which are the times of their entries."""
        log = self.work / "ckpt" / JOB_ID / "vertices" / vertex / "0" / "log"
        paths = [path for path in log.glob("[0-9]*.json") if '"Batch"' in path.read_text()]
        return sorted(path.stat().st_mtime for path in paths)

    def measure(self) -> tuple[float, float, float]:
        """Return the gap, and the longest and usual time of the other query."""
        with data.LiveFeed(self.work / "live"):
            process = self.start()
            self._wait(process, lambda: min(len(self.published(one)) for one in ("first", "other")) >= BEFORE)
            (self.work / "fail").touch()
            process = self._run_on(process)
            process.terminate()
            process.wait()
        at = float((self.work / "failed").read_text())
        gap = min(one for one in self.published("first") if one > at) - at
        others = [b - a for a, b in pairwise(self.published("other")[3:])]
        return gap, max(others), statistics.median(others)

    def _run_on(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        while True:
            failed = self.work / "failed"
            at = float(failed.read_text() or "inf") if failed.exists() else float("inf")
            if sum(one > at for one in self.published("first")) >= AFTER:
                return process
            if process.poll() is not None:
                if at == float("inf"):
                    raise SystemExit((self.work / "stderr").read_text()[-3000:])
                process = self.start()
            time.sleep(0.02)

    def _wait(self, process: subprocess.Popen[bytes], until: Any) -> None:
        while not until():
            if process.poll() is not None:
                raise SystemExit((self.work / "stderr").read_text()[-3000:])
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    base = data.scratch() / "restart"
    found: dict[str, list[tuple[float, float, float]]] = {"alone": [], "whole": []}
    for _ in range(args.rounds):
        for name, restarts in (("alone", 1), ("whole", 0)):
            found[name].append(Driver(base / name, restarts).measure())
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, rounds in found.items():
        gap, longest, usual = (statistics.median(one[n] for one in rounds) for n in range(3))
        gaps = ", ".join(f"{one[0]:.2f}" for one in rounds)
        print(f"{name}: gap {gap:.2f} s ({gaps}); other query: longest {longest:.2f} s, usual {usual:.2f} s")
    ratio = statistics.median(a[0] / b[0] for a, b in zip(found["alone"], found["whole"], strict=True))
    print(f"gap alone / whole {ratio:.2f}")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
