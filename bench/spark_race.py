"""One run of a race in Spark, in processes of its own: the library's job, or the plain query."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests, released_files
from bench import data, race_lap, race_plan
from bench.ckpt_run import CkptRun, Line
from bench.measure import CpuMeter
from bench.process_tree import end_group, tree_seconds
from bench.race_lap import Lap, Times
from bench.race_plan import RacePlan

PLAN_FILE = Path(race_plan.__file__)


def run_ours(plan: RacePlan, history: data.History) -> Lap:
    work, launched = Path(plan.work), time.time()
    run = CkptRun(f"{PLAN_FILE}:job", work, plan.to_environ(), {})
    query = "result_history" if plan.apart else "result_all"
    attempts = work / "ckpt" / race_plan.JOB_ID / "vertices" / query / "0" / "spark"
    with CpuMeter(lambda: tree_seconds(run.process.pid)) as meter:
        try:
            planned, read = _batches(attempts, "*/", plan.last_batch(history.files), run.process)
            run.wait_for(lambda line: line["kind"] == "released" and "history" in line["finished_operators"])
        finally:
            run.stop()
    found = race_lap.parts((Path(unquote(urlparse(uri).path)) for uri in released_files(plan.out)), plan)
    race_lap.check(found, plan, history)
    times = Times(launched, planned, read, max(_appeared(_covering(plan, history), plan)))
    live = race_lap.seen(found, Path(plan.live), times.visible) if plan.variant == "A" else ()
    return times.lap(history.rows, meter, found[0].at, live, _checkpoints(run.lines, planned, read))


def _batches(folder: Path, below: str, last: int, process: subprocess.Popen[Any]) -> tuple[float, float]:
    """Wait until batch ``last`` is committed. Return when the first file of history was planned, and when it committed.

    The times are those of files of Spark's checkpoint. They are read while the job runs, because the library deletes
    the files later.

    Args:
        folder: of the run.
        below: pattern of Spark's checkpoint below that folder.
        last: id of the batch.
        process: the run.
    """
    while not (committed := list(folder.glob(f"{below}commits/{last}"))):
        if process.poll() is not None:
            raise SystemExit(f"the run of {folder} ended: see stderr in its work folder")
        time.sleep(0.05)
    planned = next(folder.glob(f"{below}sources/history/0"))
    return planned.stat().st_mtime, committed[0].stat().st_mtime


def _covering(plan: RacePlan, history: data.History) -> Manifest:
    """Return the manifest that released the last batch of history."""
    sink, mark = "out_history" if plan.apart else "out_all", f"-{plan.last_batch(history.files)}-"
    manifests = read_manifests(plan.out, race_plan.JOB_ID, sink)
    return next(one for one in manifests if any(mark in batch for batch in one.batches))


def _appeared(manifest: Manifest, plan: RacePlan) -> Iterator[float]:
    for file in manifest.files:
        yield Path(plan.out, file.path).stat().st_ctime


def _checkpoints(lines: list[Line], start: float, end: float) -> Iterator[float]:
    """Yield the milliseconds of each checkpoint that completed in that time."""
    for line in lines:
        if line["kind"] == "checkpoint" and start <= line["at"] <= end:
            took = re.search(r"completed in (\d+) ms", line["message"])
            assert took is not None, line
            yield float(took[1])


def run_plain(plan: RacePlan, history: data.History) -> Lap:
    work, launched = Path(plan.work), time.time()
    with open(work / "stderr", "w") as errors:
        command = [sys.executable, str(PLAN_FILE), json.dumps(asdict(plan))]
        process = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
        with CpuMeter(lambda: tree_seconds(process.pid)) as meter:
            try:
                planned, visible = _batches(work, "ckpt/", plan.last_batch(history.files), process)
                time.sleep(1)  # so that the meter takes samples after that time
            finally:
                end_group(process)
    found = race_lap.parts((file for done in work.glob("out/*/_SUCCESS") for file in done.parent.glob("part-*")), plan)
    race_lap.check(found, plan, history)
    times = Times(launched, planned, None, visible)
    live = race_lap.seen(found, Path(plan.live), visible) if plan.variant == "A" else ()
    return times.lap(history.rows, meter, found[0].at, live, ())
