"""Checkpoint duration: from the trigger until "completed" is durable in the journal, on a local disk.

    python bench/bench_checkpoint_latency.py [--checkpoints 100] [--rows 10000000]

idle   one query without new data, so that a checkpoint waits for nothing
busy   one query with micro-batches of seconds (history into an aggregate, on every core)

Target: a median of 50 ms or less in both. The time of one durable create on the disk is printed, too, because a
checkpoint of one vertex consists of a few of them (triggered, barrier, completed).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, plans
from bench.one_run import CONF, JOB_ID

INTERVAL = 0.2
WARM_UP = 10
"""Number of first checkpoints that are left out, because the query is still starting."""


@dataclass(frozen=True)
class Figures:
    checkpoints: int
    median: float
    p95: float
    longest_batch: float


def measure(case: str, history: data.History, checkpoints: int) -> Figures:
    work = data.scratch() / "latency"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = history.folder
    if case == "idle":
        source = str(work / "nothing")
        Path(source).mkdir()
    plan = plans.Plan("B", source, str(work / "live"), str(work / "out"), files_per_trigger=16)
    environ = {**os.environ, **plan.to_environ()}
    command = [sys.executable, __file__, "--case", case, "--checkpoints", str(checkpoints), "--work", str(work)]
    with open(work / "stderr", "w") as errors:  # Spark's warnings, and its trace of a batch that a stop interrupts
        done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the run failed:\n{done.stdout[-1000:]}\n{(work / 'stderr').read_text()[-3000:]}")
    shutil.rmtree(work)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


class Clock:
    """A receiver of status lines that notes the time of each completed checkpoint.

    The line comes after the journal entry is durable. ``enough`` is set after ``wanted`` checkpoints, or with
    ``until_read`` when history has been read.
    """

    def __init__(self, wanted: int, until_read: bool) -> None:
        self.told: dict[int, float] = {}
        self.enough = threading.Event()
        self._wanted = wanted
        self._until_read = until_read

    def __call__(self, line: Any) -> None:
        if line.kind == "checkpoint":
            self.told[line.data["checkpoint"]] = time.time()
        if line.kind == "source_ended" if self._until_read else len(self.told) >= self._wanted:
            self.enough.set()

    def seconds(self, journal: Path) -> list[float]:
        took = []
        for path in sorted(journal.glob("*.json")):
            for event in json.loads(path.read_text())["body"].get("events", []):
                number = event.get("checkpoint")
                if event["type"] == "CheckpointCompleted" and event["kind"] == "checkpoint" and number > WARM_UP:
                    took.append(self.told[number] - event["triggered_at"])
        return took


def run_here(case: str, checkpoints: int, work: Path) -> Figures:
    """Run the job in this process until it has enough checkpoints (busy: until history is read)."""
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.journal.request_files import write_request
    from airflow_provider_ckpt.model.job_request import StopRequest
    from airflow_provider_ckpt.spark.app.session import build_session
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
    from airflow_provider_ckpt.storage.location import Location
    from airflow_provider_ckpt.storage.opening import open_storage
    from bench.measure import Progress

    root = str(work / "ckpt")
    options = RunOptions(
        job=f"{Path(__file__).parent}/plans.py:job", root=root, job_id=JOB_ID, checkpoint_interval=INTERVAL, conf=CONF
    )
    spark = build_session(JOB_ID, CONF)
    spark.sparkContext.setLogLevel("ERROR")
    progress = Progress()
    spark.streams.addListener(progress)
    clock = Clock(checkpoints + WARM_UP, until_read=case == "busy")

    def stop_at_last() -> None:
        clock.enough.wait()
        write_request(open_storage(root), JOB_ID, StopRequest(epoch=1))

    (work / "live").mkdir()
    threading.Thread(target=stop_at_last, daemon=True).start()
    code = run_job(RunRequest(options, Location(options.root), clock))
    spark.stop()
    if code:
        raise SystemExit(code)
    took = sorted(clock.seconds(work / "ckpt" / JOB_ID / "journal"))
    longest = max((batch.end - batch.start for batch in progress.batches), default=0.0)
    return Figures(len(took), statistics.median(took), took[len(took) * 95 // 100], longest)


def durable_create() -> float:
    """Return the median seconds of one durable create on the disk of the scratch folder."""
    from airflow_provider_ckpt.storage.opening import open_storage

    storage = open_storage(str(data.scratch() / "disk"))
    took = []
    for number in range(100):
        start = time.perf_counter()
        storage.create(f"{number:04d}", b"x" * 500)
        took.append(time.perf_counter() - start)
    storage.delete_tree("")
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=100, help="of the idle run")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--case", choices=("idle", "busy"), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        figures = run_here(arguments.case, arguments.checkpoints, arguments.work)
        print(json.dumps(figures.__dict__))
        return
    history = data.history(data.scratch(), arguments.rows)
    print(f"one durable create: median {durable_create() * 1e3:.1f} ms; load {os.getloadavg()[0]:.1f}")
    for case in ("idle", "busy"):
        figures = measure(case, history, arguments.checkpoints)
        print(
            f"{case}: {figures.checkpoints} checkpoints, median {figures.median * 1e3:.0f} ms, 95 % within "
            f"{figures.p95 * 1e3:.0f} ms; longest micro-batch {figures.longest_batch:.1f} s; "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
