"""What it costs to compare files again after they were read.

    python bench/bench_file_looks.py [--rounds 3] [--files 10000] [--young]

compared  the default: sizes and times are remembered, and compared while the query runs and at its end
blind     the same job, and nothing is compared

Both read the same small JSON files as a stream, in micro-batches of 500 files, in turn. ``--young``: the files were
written just now, so that they are also compared while the query runs.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data

CONF = {
    "spark.master": os.environ.get("CKPT_BENCH_MASTER", "local[2]"),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
}
JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("looks")

@job.source(bounded=True, max_files_per_trigger=500)
def rows(read):
    return read.schema("id long").json("{folder}")

job.sink("out", rows, FileSink("{out}"))
"""


def make(folder: Path, files: int, *, young: bool) -> None:
    if not folder.exists():
        folder.mkdir(parents=True)
        for number in range(files):
            (folder / f"{number:06}.json").write_text(f'{{"id": {number}}}\n')
    began = time.time() - (0 if young else 2 * files)
    for number, path in enumerate(sorted(folder.iterdir())):
        os.utime(path, (began + (0 if young else number),) * 2)


def one(folder: str, compared: bool) -> dict[str, Any]:
    """Run the job in this process and return what was measured."""
    from airflow_provider_ckpt.job.options import RunOptions
    from airflow_provider_ckpt.sinks.manifests import read_manifests
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.task.file_watch import FileWatch
    from airflow_provider_ckpt.storage.location import Location

    work = data.scratch() / "file-looks"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "job.py").write_text(JOB.format(folder=folder, out=work / "out"))
    if not compared:
        FileWatch.is_due = lambda self, now: False  # type: ignore[method-assign]
        FileWatch.look_at_all = lambda self, reads, *, wait: None  # type: ignore[method-assign]
    lines: list[tuple[float, Any]] = []
    hear: Callable[[Any], None] = lambda line: lines.append((time.time(), line))  # noqa: E731
    options = RunOptions(
        job=f"{work}/job.py:job",
        root=f"{work}/root",
        job_id="looks",
        mode="streaming",
        checkpoint_interval=5,
        conf=CONF,
    )
    code = run_job(options, Location(options.root), hear)
    if code:
        raise RuntimeError(f"exit code {code}: {lines[-1:]}")
    running = next(at for at, line in lines if line.kind == "running")
    rows = sum(manifest.rows for manifest in read_manifests(str(work / "out")))
    return {"seconds": lines[-1][0] - running, "rows": rows}


def measured(folder: Path, compared: bool, files: int) -> float:
    """Run it in a process of its own; a result that is wrong ends the bench."""
    command = [sys.executable, __file__, "--one", str(folder), *([] if compared else ["--blind"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise SystemExit(f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if report["rows"] != files:
        raise SystemExit(f"{report['rows']} of {files} rows were released")
    return float(report["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--young", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--blind", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one, not arguments.blind)))
        return
    folder = data.scratch() / f"small-files-{arguments.files}"
    print(f"{arguments.files} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    ratios: list[float] = []
    for number in range(arguments.rounds):
        seconds = {}
        for compared in (True, False) if number % 2 else (False, True):
            make(folder, arguments.files, young=arguments.young)
            seconds[compared] = measured(folder, compared, arguments.files)
        print(f"compared {seconds[True]:.1f} s, blind {seconds[False]:.1f} s", flush=True)
        ratios.append(seconds[True] / seconds[False])
    each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"compared: {statistics.median(ratios):.3f} of the time of blind ({each})")


if __name__ == "__main__":
    main()
