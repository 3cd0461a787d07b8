"""Kill of the process of one vertex: a restart of its worker alone, against the whole job as one driver.

    python bench/bench_workers.py [--rounds 3] [--trigger-interval 2s]

The job has five queries: a live feed, and four queries that read its result partition and have a sink each.

workers  `ckpt master`, and a `ckpt worker` for each query. A worker with a sink is killed (-9, with its JVM)
standby  as "workers", with one more warm worker (`--standby`), which waits for the killed one
whole    `ckpt run`, which is killed in the same way

The killed process is started again at once, as by a supervisor without a pause (with "standby", as another standby).

gap         from the kill to the next published batch of the killed query
other       the longest time between two published batches of the other queries; usual: the median of these times
checkpoint  of the workers: from the trigger until "completed" is durable, all of it through the storage

With --trigger-interval 0 the queries run one micro-batch after the other, and five JVMs use all of two cores. With 2s
they leave room for the process that starts, as workers on separate machines do.

Target: the gap at most 0.6 of that of the whole job, no delay of the other queries, a median checkpoint of 500 ms or
less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.opening import open_storage
from bench import data, plans
from bench.one_run import JOB_ID

VARIABLE = "CKPT_BENCH_WORKERS"
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}
OUTPUTS = ("first", "second", "third", "fourth")
VERTICES = ("live", *OUTPUTS)
KILLED, OTHERS = "first", OUTPUTS[1:]
BEFORE, AFTER = 10, 5
"""Published batches of each query before the kill, and of the killed query after it."""
CHECKPOINTS = 30
"""Completed checkpoints before the kill. The first WARM_UP are left out, because queries are still starting."""
WARM_UP = 10
HOME = str(Path(__file__).resolve().parent.parent)
CKPT = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"


def build(work: Path) -> Any:
    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)

    @job.source
    def live(read: Any) -> Any:
        return read.schema(plans.SCHEMA).parquet(str(work / "live"))

    for name in OUTPUTS:

        @job.transform(inputs=[live], uid=name)
        def result(rows: Any) -> Any:
            return rows.where("amount > 1")

        job.sink(f"out_{name}", name, FileSink(str(work / f"out_{name}")))
    return job


if VARIABLE in os.environ:
    job = build(Path(os.environ[VARIABLE]))


class Supervised:
    """A command that is started again as soon as it has ended, until it is closed."""

    def __init__(self, work: Path, command: str, *flags: str) -> None:
        settings = [flag for key, value in CONF.items() for flag in ("--conf", f"{key}={value}")]
        root = ["--root", str(work / "ckpt"), "--checkpoint-interval", "1s", "--retained-checkpoints", "100"]
        self._command = [sys.executable, "-c", CKPT, command, f"{__file__}:job", *root, *settings, *flags]
        self._environ = {**os.environ, VARIABLE: str(work), "PYTHONPATH": HOME}
        self._errors = work / "stderr"
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with open(self._errors, "ab") as errors:
            return subprocess.Popen(
                self._command, env=self._environ, stdout=errors, stderr=errors, start_new_session=True
            )

    def post_run(self) -> None:
        if self._process.poll() is not None:
            self._process = self._started()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # the JVM is in the process's group
        self._process.wait()


@dataclass(frozen=True)
class Figures:
    """The figures of one run, in seconds. ``checkpoints``: those completed before the kill, without the first ones."""

    gap: float
    longest: float
    usual: float
    checkpoints: list[float]


class Run:
    def __init__(self, work: Path, trigger_interval: str) -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self._work, self._flags = work, ("--trigger-interval", trigger_interval)
        self._members: list[Supervised] = []

    def workers(self) -> Supervised:
        """Start all workers. Return the one to kill."""
        self._start("master")
        made = {vertex: self._start("worker", "--subtask", vertex) for vertex in VERTICES}
        return made[KILLED]

    def standby(self) -> Supervised:
        self._start("master")
        made = {vertex: self._start("worker", "--subtask", vertex, "--standby") for vertex in VERTICES}
        self._wait(lambda: len(self._published(KILLED)) > 0)
        self._start("worker", "--subtask", KILLED, "--standby", "--json")
        told = '"warm": true'  # the other workers report this, too, but not as JSON
        self._wait(lambda: told in (self._work / "stderr").read_text())
        return made[KILLED]

    def whole(self) -> Supervised:
        return self._start("run")

    def _start(self, command: str, *flags: str) -> Supervised:
        self._members.append(Supervised(self._work, command, *self._flags, *flags))
        return self._members[-1]

    def measure(self, start: Callable[[], Supervised]) -> Figures:
        with data.LiveFeed(self._work / "live"):
            try:
                victim = start()
                self._wait(self._is_warm)
                checkpoints = self._checkpoints()[WARM_UP:]
                at = time.time()
                victim.kill()
                self._wait(lambda: sum(one > at for one in self._published(KILLED)) >= AFTER)
            finally:
                for member in self._members:
                    member.kill()
        gap = min(one for one in self._published(KILLED) if one > at) - at
        others = [b - a for vertex in OTHERS for a, b in pairwise(self._published(vertex)[3:])]
        return Figures(gap, max(others), statistics.median(others), checkpoints)

    def _is_warm(self) -> bool:
        done = min(len(self._published(vertex)) for vertex in OUTPUTS)
        return done >= BEFORE and len(self._checkpoints()) >= CHECKPOINTS

    def _checkpoints(self) -> list[float]:
        """Return the duration of each checkpoint."""
        state = Journal(open_storage(str(self._work / "ckpt")), JOB_ID).replay()
        return [one.at - one.triggered_at for _, one in sorted(state.checkpoints.items())]

    def _published(self, vertex: str) -> list[float]:
        """Return the times when batches were published, which are the times of their entries."""
        log = self._work / "ckpt" / JOB_ID / "vertices" / vertex / "0" / "log"
        paths = [path for path in log.glob("[0-9]*.json") if '"Batch"' in path.read_text()]
        return sorted(path.stat().st_mtime for path in paths)

    def _wait(self, until: Callable[[], bool], longest: float = 900.0) -> None:
        deadline = time.monotonic() + longest
        while True:
            try:
                if until():
                    return
            except FileNotFoundError:
                pass  # the log was truncated meanwhile
            for member in self._members:
                member.post_run()
            if time.monotonic() > deadline:
                raise SystemExit((self._work / "stderr").read_text()[-5000:])
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trigger-interval", default="0")
    args = parser.parse_args()
    base = data.scratch() / "workers"
    found: dict[str, list[Figures]] = {"workers": [], "standby": [], "whole": []}
    for _ in range(args.rounds):
        found["workers"].append((one := Run(base / "workers", args.trigger_interval)).measure(one.workers))
        found["standby"].append((one := Run(base / "standby", args.trigger_interval)).measure(one.standby))
        found["whole"].append((one := Run(base / "whole", args.trigger_interval)).measure(one.whole))
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    for name, rounds in found.items():
        gap, longest, usual = (statistics.median(getattr(r, of) for r in rounds) for of in ("gap", "longest", "usual"))
        gaps = ", ".join(f"{one.gap:.2f}" for one in rounds)
        print(f"{name}: gap {gap:.2f} s ({gaps}); others: longest {longest:.2f} s, usual {usual:.2f} s")
        took = sorted(1000 * each for one in rounds for each in one.checkpoints)
        p95 = took[int(0.95 * (len(took) - 1))]
        print(f"{name}: checkpoint median {statistics.median(took):.0f} ms, 95 % within {p95:.0f} ms ({len(took)})")
    for form in ("workers", "standby"):
        ratio = statistics.median(a.gap / b.gap for a, b in zip(found[form], found["whole"], strict=True))
        print(f"gap {form} / whole {ratio:.2f}")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
