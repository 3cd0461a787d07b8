"""Cost of comparing files again after they were read.

    python bench/bench_file_looks.py [--rounds 3] [--files 10000] [--young]

compared  the default: sizes and times are kept, and compared while the query runs and at its end
blind     the same job without comparisons

Both read the same small JSON files as a stream, in micro-batches of 500 files, in turn. ``--young``: the files were
written just now, so that they are also compared while the query runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, two_sides

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
    """Run the job in this process and return the measurements."""
    from airflow_provider_ckpt.sinks.file.manifests import read_manifests
    from airflow_provider_ckpt.spark.task.streaming.source_watch import FileWatch

    work = two_sides.new_folder(data.scratch() / "file-looks")
    if not compared:
        FileWatch.is_due = lambda self, now: False  # type: ignore[method-assign]
        FileWatch.compare_all = lambda self, reads, *, wait: None  # type: ignore[method-assign]
    seconds = two_sides.seconds_of_job(work, JOB.format(folder=folder, out=work / "out"), CONF)
    return {"seconds": seconds, "rows": sum(manifest.rows for manifest in read_manifests(str(work / "out")))}


def measured(folder: Path, compared: bool, files: int) -> float:
    """Run the job in a process of its own. End the bench if the result is wrong."""
    report = two_sides.report_of(__file__, "--one", str(folder), *([] if compared else ["--blind"]))
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
    for sides in two_sides.turns(arguments.rounds):
        seconds = {}
        for compared in sides:
            make(folder, arguments.files, young=arguments.young)
            seconds[compared] = measured(folder, compared, arguments.files)
        print(f"compared {seconds[True]:.1f} s, blind {seconds[False]:.1f} s", flush=True)
        ratios.append(seconds[True] / seconds[False])
    print(f"compared: {two_sides.median_of(ratios)} of the time of blind")


if __name__ == "__main__":
    main()
