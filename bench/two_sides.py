"""Alternating runs of a finite job in two ways, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import CpuMeter
from bench.process_tree import tree_seconds

LONGEST_RUN = 1800.0
"""Seconds after which a run counts as hanging and is ended."""


class Cost(NamedTuple):
    """The time of a job from RUNNING to its end, and the CPU time of its driver and workers meanwhile.

    A machine with other work on it changes the CPU time less than the time.
    """

    seconds: float
    cpu_seconds: float


def new_folder(work: Path) -> Path:
    """Empty the folder ``work``, and return it."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def seconds_of_job(work: Path, job: str, conf: Mapping[str, str]) -> float:
    """Run a job as :func:`cost_of_job` does. Return the seconds from RUNNING to its last status line."""
    return cost_of_job(work, job, conf).seconds


def cost_of_job(work: Path, job: str, conf: Mapping[str, str]) -> Cost:
    """Run a job in this process, as a stream.

    Args:
        work: an empty folder.
        job: the text of the job's file.
    """
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
    from airflow_provider_ckpt.storage.location import Location

    (work / "job.py").write_text(job)
    lines: list[tuple[float, Any]] = []
    options = RunOptions(
        job=f"{work}/job.py:job",
        root=f"{work}/root",
        job_id="bench",
        mode="streaming",
        checkpoint_interval=5,
        conf=dict(conf),
    )
    highest = 0.0

    def used() -> float:
        """Return the CPU time so far. The JVM's part is gone from the process tree when it has ended."""
        nonlocal highest
        highest = max(highest, tree_seconds(os.getpid()))
        return highest

    with CpuMeter(used) as meter:
        code = run_job(RunRequest(options, Location(options.root), lambda line: lines.append((time.time(), line))))
    if code:
        raise RuntimeError(f"exit code {code}: {lines[-1:]}")
    began = next(at for at, line in lines if line.kind == "running")
    ended = lines[-1][0]
    return Cost(ended - began, meter.between(began, ended))


def report_of(bench: str, *arguments: str) -> dict[str, Any]:
    """Run a bench's file with these arguments. Return the JSON object in the last line that it prints."""
    done = subprocess.run(
        [sys.executable, bench, *arguments], capture_output=True, text=True, timeout=LONGEST_RUN, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def turns(rounds: int) -> Iterator[tuple[bool, bool]]:
    """Yield the order of the two sides for each round. The order alternates, so that no side is always first."""
    for number in range(rounds):
        yield (True, False) if number % 2 else (False, True)


def median_of(ratios: Sequence[float]) -> str:
    each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    return f"{statistics.median(ratios):.3f} ({each})"
