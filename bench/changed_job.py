"""A running job of a benchmark, with requests that change its queries and measurements of its batches."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.job.options.run_options import RunOptions
from bench.one_run import CONF, JOB_ID

HOME = str(Path(__file__).resolve().parent.parent)
VERSION = "CKPT_BENCH_VERSION"
"""Variable that selects the version of the functions in the job's file: ``one`` or ``two``."""


class ChangedJob:
    """A job in a process of its own.

    Args:
        module: the job's module in ``bench``.
        variable: the environment variable that passes ``given`` to the job.
        partitions: number of partitions of each shuffle.
    """

    def __init__(self, work: Path, module: str, variable: str, given: dict[str, Any], partitions: int) -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.work = work
        self.client = JobClient(str(work / "ckpt"), JOB_ID)
        self._reference = f"{HOME}/bench/{module}.py:job"
        self._environ = {variable: json.dumps(given), "PYTHONPATH": HOME}
        self._partitions = partitions
        version = work / "v2.py"
        version.write_text(
            f"import os\nos.environ['{VERSION}'] = 'two'\nimport json\nfrom bench import {module}\n"
            f"job = {module}.build(json.loads(os.environ['{variable}']))\n"
        )
        self.version = f"{version}:job"
        """The job's file with other functions."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, reference: str | None = None, **more: Any) -> None:
        options = RunOptions(
            job=reference or self._reference,
            root=str(self.work / "ckpt"),
            job_id=JOB_ID,
            checkpoint_interval=1.0,
            allow_code_from=(str(self.work.resolve()),),
            retained_checkpoints=100,  # keep the logs long enough to read the times of published batches
            conf={**CONF, "spark.sql.shuffle.partitions": str(self._partitions)},
            **more,
        )
        command = [
            *(sys.executable, "-m", "airflow_provider_ckpt.spark.main"),
            *("--options", json.dumps(options.to_json())),
        ]
        errors = open(self.work / "stderr", "ab")  # noqa: SIM115 - the process's
        environ = {**os.environ, **self._environ}
        self._process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=errors)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def change(self, change: Reconfiguration, what: str) -> None:
        """Change the running job, and return when the change is made."""
        answer = self.client.answer(self.client.reconfigure(change), 300)
        if not answer.is_served:
            raise SystemExit(f"{what}: {answer.outcome}")

    def upgrade(self) -> None:
        """Upgrade the running job, and return when the other version runs."""
        answer = self.client.answer(self.client.upgrade(self.version), 300)
        if not answer.is_served:
            raise SystemExit(f"upgrade: {answer.outcome}")

    def restart(self, reference: str | None, **more: Any) -> None:
        """Stop the job with a savepoint and start it again. Return when it runs."""
        self.client.answer(self.client.stop(), 300)
        assert self._process is not None
        self._process.wait()
        self.start(reference, **more)
        self.wait(lambda: self.client.read_state().status == "RUNNING")

    def log(self, vertex: str) -> Path:
        return self.work / "ckpt" / JOB_ID / "vertices" / vertex / "0" / "log"

    def published(self, vertex: str) -> list[float]:
        """Return the times when batches were published, which are the times of their entries."""
        found = []
        for path in self.log(vertex).glob("[0-9]*.json"):
            try:
                if '"Batch"' in path.read_text():
                    found.append(path.stat().st_mtime)
            except FileNotFoundError:
                continue  # the log was truncated meanwhile
        return sorted(found)

    def longest_gap(self, vertex: str, since: float) -> float:
        return max(b - a for a, b in pairwise(self.published(vertex)) if b > since)

    def usual_gap(self, vertex: str, until: float) -> float:
        """Return the median time between two batches before ``until``, without the first batches."""
        return statistics.median(b - a for a, b in pairwise(one for one in self.published(vertex)[2:] if one <= until))

    def wait_for_batches(self, vertices: Iterable[str], count: int, since: float = 0.0) -> None:
        self.wait(lambda: all(sum(one > since for one in self.published(each)) >= count for each in vertices))

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
        while not until():
            has_ended = self._process is not None and self._process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                raise SystemExit((self.work / "stderr").read_text()[-3000:] or "the job has ended")
            time.sleep(0.02)
