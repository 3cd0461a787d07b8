"""Cost of holding event time for history: windows stay open, and in the state, until history has ended.

    python bench/bench_event_time.py [--rounds 3] [--rows 2000000] [--windows 20000]

held      the default: event time does not advance while history is read
in order  the source has in_order=True, and windows close while it is read

Both count rows of 20 keys in windows of a minute, over the same files, in turn. The bench reports the rows a second
until the last window is released, and the largest state of a micro-batch. Each file holds a range of event time, as a
day file does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, two_sides

KEYS, FILES, MINUTE = 20, 40, 60
CONF = {
    "spark.master": os.environ.get("CKPT_BENCH_MASTER", "local[2]"),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
}
JOB = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("windows")

@job.source(bounded=True, max_files_per_trigger=2, watermark=("ts", "1 minute"), in_order={in_order})
def history(read):
    return read.schema("id long, key long, ts timestamp").parquet("{folder}")

@job.transform(inputs=[history])
def counts(rows):
    counted = rows.groupBy(F.window("ts", "1 minute"), "key").agg(F.count("*").alias("n"))
    return counted.select("window.start", "key", "n")

job.sink("out", counts, FileSink("{out}"))
"""


def make(folder: Path, rows: int, windows: int) -> None:
    """Write files of rows in the order of event time, unless they are there."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    if folder.exists():
        return
    hidden = folder.with_name(f".{folder.name}")
    hidden.mkdir(parents=True)
    each, began = rows // FILES, time.time() - 2 * FILES
    for number in range(FILES):
        ids = np.arange(number * each, (number + 1) * each)
        seconds = 1_700_000_000 + ids * (windows * MINUTE) // rows
        table = pa.table({"id": ids, "key": ids % KEYS, "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC"))})
        path = hidden / f"{number:03d}.parquet"
        parquet.write_table(table, path)
        os.utime(path, (began + number, began + number))
    hidden.rename(folder)


def one(folder: str, in_order: bool) -> dict[str, Any]:
    """Run the job in this process and return the measurements."""
    from pyarrow import parquet

    from airflow_provider_ckpt.sinks.file.manifests import released_files
    from airflow_provider_ckpt.spark.app.session import build_session
    from bench.measure import ProgressListener

    work = two_sides.new_folder(data.scratch() / "event-time")
    states: list[tuple[int, int]] = []

    def collect(progress: Mapping[str, Any]) -> None:
        for operator in progress["stateOperators"]:
            states.append((operator["numRowsTotal"], operator["memoryUsedBytes"]))

    spark = build_session("bench", CONF)
    spark.streams.addListener(ProgressListener(collect))
    job = JOB.format(in_order=in_order, folder=folder, out=work / "out")
    seconds = two_sides.seconds_of_job(work, job, CONF)
    files = [uri.removeprefix("file://") for uri in released_files(str(work / "out"))]
    counted = sum(sum(parquet.read_table(path)["n"].to_pylist()) for path in files)
    return {
        "seconds": seconds,
        "state_rows": max(rows for rows, _ in states),
        "state_bytes": max(size for _, size in states),
        "counted": counted,
    }


def measured(folder: Path, in_order: bool, rows: int) -> dict[str, Any]:
    """Run the job in a process of its own. End the bench if the result is wrong."""
    report = two_sides.report_of(__file__, "--one", str(folder), *(["--in-order"] if in_order else []))
    if report["counted"] != rows:
        raise SystemExit(f"{report['counted']} of {rows} rows were counted")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--windows", type=int, default=20_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--in-order", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one, arguments.in_order)))
        return
    rows = arguments.rows // FILES * FILES
    folder = data.scratch() / f"windows-{rows}-{arguments.windows}"
    make(folder, rows, arguments.windows)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{rows} rows in {FILES} files, {arguments.windows} windows, {machine}")
    ratios: list[float] = []
    for sides in two_sides.turns(arguments.rounds):
        reports = {side: measured(folder, side, rows) for side in sides}
        for side, report in reports.items():
            name = "in order" if side else "held"
            size = report["state_bytes"] / 2**20
            rate = rows / report["seconds"]
            print(f"{name:8} {rate:8.0f} rows/s, state {report['state_rows']} rows, {size:.0f} MiB", flush=True)
        ratios.append(reports[True]["seconds"] / reports[False]["seconds"])
    print(f"held: {two_sides.median_of(ratios)} of the rows a second in order")


if __name__ == "__main__":
    main()
