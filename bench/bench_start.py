"""Time from the start of `ckpt run` to RUNNING and to the first released rows, with and without a class archive.

    python bench/bench_start.py [--rounds 5] [--archive FOLDER]

The two ways take turns. Each run is a process of its own with a job of its own: it reads a live folder that has a file
already, filters its rows, and writes files. The archive is made first, in a folder of the benchmark. Target: RUNNING
within 6.5 s, released within 9 s.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.data import scratch
from bench.process_tree import tree_seconds

HOME = Path(__file__).resolve().parent.parent
VARIABLE = "CKPT_BENCH_START"
CKPT = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main(sys.argv[1:]))"


def build(work: Path) -> Any:
    from airflow_provider_ckpt import FileSink, Job

    job = Job("start")

    @job.source
    def live(read: Any) -> Any:
        return read.schema("n BIGINT").parquet(str(work / "live"))

    @job.transform(inputs=[live])
    def kept(rows: Any) -> Any:
        return rows.where("n >= 0")

    job.sink("out", kept, FileSink(str(work / "out")))
    return job


if VARIABLE in os.environ:
    job = build(Path(os.environ[VARIABLE]))


@dataclass(frozen=True)
class RecoveryPoint:
    """Seconds since the start of the process, and CPU seconds of the process and its children until then."""

    running: float
    running_cpu: float
    released: float
    released_cpu: float


def started(base: Path, archive: str) -> RecoveryPoint:
    work = Path(tempfile.mkdtemp(dir=base))
    (work / "live").mkdir()
    parquet.write_table(pa.table({"n": range(1000)}), work / "live" / "rows.parquet")
    environ = {**os.environ, VARIABLE: str(work), "PYTHONPATH": str(HOME), "CKPT_CLASS_ARCHIVE": archive}
    command = [sys.executable, "-c", CKPT, "run", f"{__file__}:job", "--root", str(work / "root"), "--json"]
    command += ["--checkpoint-interval", "500ms", "--conf", "spark.master=local[2]"]
    begun = time.monotonic()
    with open(work / "stderr", "wb") as errors:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            times: dict[str, tuple[float, float]] = {}
            for line in process.stdout:
                kind = json.loads(line)["kind"]
                if kind not in times:
                    times[kind] = (time.monotonic() - begun, tree_seconds(process.pid))
                if "released" in times:
                    break
        finally:
            process.terminate()
            process.wait()
    if "released" not in times:
        raise RuntimeError((work / "stderr").read_text()[-2000:])
    shutil.rmtree(work)
    return RecoveryPoint(*times["started"], *times["released"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--archive", help="folder of an archive, which is made if it does not exist; by default a temporary one"
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds
    scratch().mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(dir=scratch()))
    archive = arguments.archive or str(base / "archive")
    environ = {**os.environ, "PYTHONPATH": str(HOME), "CKPT_CLASS_ARCHIVE": archive}
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", CKPT, "class-archive"], env=environ, check=True, capture_output=True)
    megabytes = sum(path.stat().st_size for path in Path(archive).iterdir()) / 1e6
    print(f"the archive: made in {time.monotonic() - begun:.1f} s, {megabytes:.0f} MB; load {os.getloadavg()[0]:.1f}")
    found: dict[str, list[RecoveryPoint]] = {"without": [], "with": []}
    for number in range(rounds):
        for name, place in (("without", "off"), ("with", archive)):
            one = started(base, place)
            found[name].append(one)
            seconds = f"RUNNING {one.running:5.1f} s (CPU {one.running_cpu:4.1f})"
            seconds += f"  released {one.released:5.1f} s (CPU {one.released_cpu:4.1f})"
            print(f"{number + 1} {name:8} {seconds}  load {os.getloadavg()[0]:.1f}", flush=True)
    for name, times in found.items():
        for what, values in zip(fields(RecoveryPoint), zip(*map(astuple, times), strict=True), strict=True):
            print(f"{name:8} {what.name:12} {statistics.median(values):5.1f} s [{min(values):.1f} … {max(values):.1f}]")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
