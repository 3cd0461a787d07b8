"""Retry after kill -9 at 90 % of a bounded source, against another run from scratch.

    python bench/bench_retry.py [--rows 10000000]

Each run is a process of its own, as spark-submit would start it. Times are from its start to its end, with the start of
the JVM. Target: the retry reads at most one micro-batch again, which was running at the kill.
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
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from bench import data, plans
from bench.one_run import CONF, JOB_ID

FILES_PER_TRIGGER = 2
VERTEX = "result"


@dataclass(frozen=True)
class Driver:
    """Driver processes over the history, one after the other, in the folder ``work``."""

    work: Path
    history: data.History

    @property
    def log(self) -> Path:
        return self.work / "ckpt" / JOB_ID / "vertices" / VERTEX / "0" / "log"

    def run(self, kill_at: int | None = None) -> float:
        """Run a driver and return its seconds. Kill it when ``kill_at`` batches are published and the next one runs."""
        plan = plans.Plan("A", self.history.folder, "", str(self.work / "out"), FILES_PER_TRIGGER)
        options = RunOptions(
            job=f"{Path(__file__).parent}/plans.py:job",
            root=str(self.work / "ckpt"),
            job_id=JOB_ID,
            mode="streaming",
            checkpoint_interval=1.0,
            conf=CONF,
        )
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", json.dumps(options.to_json())]
        environ = {**os.environ, **plan.to_environ(), "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        start = time.time()
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet, start_new_session=True)
        while process.poll() is None:
            if kill_at is not None and self.published() >= kill_at and self.planned() > kill_at:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(0.02)
        if process.returncode and kill_at is None:
            raise SystemExit(f"the driver ended with exit code {process.returncode}")
        return time.time() - start

    def published(self) -> int:
        return sum(1 for path in self.log.glob("[0-9]*.json") if '"Batch"' in path.read_text())

    def planned(self) -> int:
        """Return the number of batches that an attempt began, published or not."""
        folders = self.log.parent.glob("spark/*/offsets/*")
        return max((int(path.name) + 1 for path in folders if path.name.isdigit()), default=0)

    def released(self) -> int:
        return sum(manifest.rows for manifest in read_manifests(str(self.work / "out")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    history = data.history(data.scratch(), parser.parse_args().rows)
    batches = history.files // FILES_PER_TRIGGER
    kill_at = batches * 9 // 10
    base = data.scratch() / "retry"
    shutil.rmtree(base, ignore_errors=True)
    killed, scratch = Driver(base / "killed", history), Driver(base / "scratch", history)
    until_kill = killed.run(kill_at)
    published, planned = killed.published(), killed.planned()
    retry = killed.run()
    whole = scratch.run()
    for driver in (killed, scratch):
        if driver.released() != history.kept:
            raise SystemExit(f"{driver.released()} rows were released, not {history.kept}")
    again = planned - published
    print(f"{history.rows:,} rows in {batches} micro-batches; load {os.getloadavg()[0]:.1f}")
    print(f"killed after {until_kill:.1f} s: {published} micro-batches published, {again} more begun")
    print(f"retry: {retry:.1f} s, {killed.published() - published} micro-batches, {again} of them for the second time")
    print(f"from scratch: {whole:.1f} s")
    print(f"in all: {until_kill + retry:.1f} s with the retry, {until_kill + whole:.1f} s from scratch again")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
