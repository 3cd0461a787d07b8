"""Cost of a job without new data, and time until it sees a new row.

    python bench/bench_idle.py [--vertices 1 5 20] [--seconds 30] [--settling 90] [--alone]
                               [--conf spark.sql.streaming.pollingDelay=10ms]

The job has one live source, and consumers for the other vertices. Each consumer is a query of its own that reads a
result partition and has a sink. A checkpoint is taken each second. A job of one vertex is one query, from source to
sink.

cores       of the whole process tree, over --seconds without new data. The next line has the cores of as many queries
            of plain Spark (spark_idle.py), which take no checkpoints, and the ratio
checkpoint  trigger -> completed, median over these seconds
seen        from a file's appearance in the folder to the start of the micro-batch that reads it, median of ten files
            (one vertex only)

Targets: 0.05, 0.1 and 0.2 cores for 1, 5 and 20 vertices; a checkpoint of 20 within 15 ms; a row seen within 100 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, plans, spark_idle
from bench.ckpt_run import CkptRun
from bench.one_run import JOB_ID
from bench.process_tree import end_group, tree_seconds

VARIABLE = "CKPT_BENCH_IDLE"
SETTLING = 12.0
"""Seconds after RUNNING that are left out. Java's compiler works for about a minute. ``--settling 90`` leaves that out,
too, so that the figure is the cost of a job that has been idle for long."""
PROBES = 10
PROBE_ROWS = 1


def build(vertices: int, work: str) -> Any:
    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)

    @job.source(chain=vertices == 1)
    def live(read: Any) -> Any:
        return read.schema(plans.SCHEMA).parquet(f"{work}/live")

    for number in range(1, max(vertices, 2)):
        rows = job.transform(inputs=[live], uid=f"consumer_{number}", chain=vertices == 1)(plans.cleaned)
        job.sink(f"out_{number}", rows, FileSink(f"{work}/out/{number}"))
    return job


if VARIABLE in os.environ:
    job = build(**json.loads(os.environ[VARIABLE]))


@dataclass(frozen=True)
class Idle:
    cores: float
    checkpoint: float
    seen: tuple[float, ...]


def measure(vertices: int, seconds: float, settling: float, conf: Mapping[str, str]) -> Idle:
    work = data.scratch() / "idle"
    shutil.rmtree(work, ignore_errors=True)
    feed = data.LiveFeed(work / "live")
    feed.rows = PROBE_ROWS
    asked = json.dumps({"vertices": vertices, "work": str(work)})
    job = CkptRun(f"{__file__}:job", work, {VARIABLE: asked}, conf)
    try:
        job.wait_for(lambda line: line["kind"] == "running")
        time.sleep(settling)
        begun = time.time()
        cores = cores_of(job.process.pid, seconds)
        took = [line for line in job.lines if line["kind"] == "checkpoint" and line["at"] > begun]
        found = [int(one[1]) for line in took if (one := re.search(r"in (\d+) ms", line["message"]))]
        seen = tuple(probed(feed, work)) if vertices == 1 else ()
    finally:
        job.stop()
    shutil.rmtree(work)
    return Idle(cores, statistics.median(found), seen)


def measure_plain(vertices: int, seconds: float, settling: float) -> float:
    work = data.scratch() / "idle"
    shutil.rmtree(work, ignore_errors=True)
    data.LiveFeed(work / "live").rows = PROBE_ROWS
    command = [sys.executable, str(Path(spark_idle.__file__)), json.dumps({"vertices": vertices, "work": str(work)})]
    with open(work / "stderr", "w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit(f"plain Spark ended:\n{(work / 'stderr').read_text()[-3000:]}")
            time.sleep(settling)
            return cores_of(process.pid, seconds)
        finally:
            end_group(process)
            shutil.rmtree(work)


def cores_of(pid: int, seconds: float) -> float:
    before, begun = tree_seconds(pid), time.time()
    time.sleep(seconds)
    return (tree_seconds(pid) - before) / (time.time() - begun)


def probed(feed: data.LiveFeed, work: Path) -> Iterator[float]:
    """Yield the seconds from a file's appearance to the plan of its micro-batch, which Spark writes first."""
    for number in range(1, PROBES + 1):
        offsets = set(work.glob("ckpt/*/vertices/*/*/spark/*/offsets/[0-9]*"))
        feed.put(number)
        added = time.time()
        while not (new := set(work.glob("ckpt/*/vertices/*/*/spark/*/offsets/[0-9]*")) - offsets):
            time.sleep(0.002)
        yield min(path.stat().st_mtime for path in new) - added
        time.sleep(1.5 + 0.037 * number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vertices", type=int, nargs="*", default=[1, 5, 20])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--settling", type=float, default=SETTLING)
    parser.add_argument("--alone", action="store_true", help="without plain Spark")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    conf = dict(setting.split("=", 1) for setting in arguments.conf)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for vertices in arguments.vertices:
        idle = measure(vertices, arguments.seconds, arguments.settling, conf)
        seen = ""
        if idle.seen:
            seen = (
                f", a row seen after {statistics.median(idle.seen) * 1e3:.0f} ms (longest {max(idle.seen) * 1e3:.0f})"
            )
        print(f"{vertices:3} vertices {idle.cores:5.3f} cores, checkpoint {idle.checkpoint:.0f} ms{seen}", flush=True)
        if not arguments.alone:
            plain = measure_plain(vertices, arguments.seconds, arguments.settling)
            print(f"    plain Spark {plain:5.3f} cores, {plain / idle.cores:.1f} times as much", flush=True)


if __name__ == "__main__":
    main()
