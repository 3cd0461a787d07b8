"""Restart of a run that was killed (-9) while it read history: time until it continues, and rows that it reads again.

    python bench/bench_relaunch.py [--rounds 3] [--files-per-trigger 4] [--archive FOLDER]

The job is a filter and a projection over history (40 files) into files, with a checkpoint each second. The kill comes
when a third of the history is released, in the middle of a micro-batch. Times are from the start of the second process:

checkpoint  until the first checkpoint that it completes
released    until the first rows that it has read itself are released; earlier published rows come with that checkpoint
again       rows of micro-batches that began before the kill and were not published, so that they are read again

At the end, the bench checks that each row of history was released once. Targets: 7 and 9 s with a class archive; again
at most one micro-batch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, race_plan
from bench.ckpt_run import CkptRun
from bench.race_plan import RacePlan

JOB = f"{race_plan.__file__}:job"
VERTEX = "result_all"


@dataclass(frozen=True)
class Relaunch:
    """The figures of one restart, in seconds and rows."""

    checkpoint: float
    released: float
    again: int


def measure(files_per_trigger: int, archive: str) -> Relaunch:
    work = data.scratch() / "relaunch"
    shutil.rmtree(work, ignore_errors=True)
    (work / "live").mkdir(parents=True)
    history = data.history(data.scratch())
    plan = RacePlan("A", "parquet", "parquet", history.folder, str(work), files_per_trigger=files_per_trigger)
    environ = {**plan.to_environ(), "CKPT_CLASS_ARCHIVE": archive}
    first = CkptRun(JOB, work, environ, {})
    while _released(work) < history.kept / 3 or not _in_a_batch(work):
        if first.process.poll() is not None:
            raise SystemExit("the first run ended by itself")
        time.sleep(0.01)
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    rows_a_batch = files_per_trigger * history.rows // history.files
    begins, again = (_newest(work, "commits") + 1) * rows_a_batch, _in_a_batch(work) * rows_a_batch
    begun = time.time()
    second = CkptRun(JOB, work, environ, {})
    try:
        checkpoint = second.wait_for(lambda line: line["kind"] == "checkpoint")
        while _newest_id(work) < begins:  # files are read in the order of their ids
            time.sleep(0.01)
        released = time.time()
        second.wait_for(lambda line: line["kind"] == "released" and "history" in line["finished_operators"])
    finally:
        second.stop()
    if (kept := _released(work)) != history.kept:
        raise SystemExit(f"{kept} rows of history are released, not {history.kept}")
    shutil.rmtree(work)
    return Relaunch(checkpoint["at"] - begun, released - begun, again)


def _released(work: Path) -> int:
    """Return the number of rows in the released files."""
    return sum(parquet.read_metadata(file).num_rows for file in (work / "out").glob("*.parquet"))


def _in_a_batch(work: Path) -> int:
    """Return the number of micro-batches that Spark has planned and not committed."""
    return _newest(work, "offsets") - _newest(work, "commits")


def _newest(work: Path, what: str) -> int:
    found = work.glob(f"ckpt/*/vertices/{VERTEX}/*/spark/*/{what}/[0-9]*")
    return max((int(path.name) for path in found), default=-1)


def _newest_id(work: Path) -> int:
    """Return the largest released order_id, from the statistics of the files."""
    found = -1
    for file in (work / "out").glob("*.parquet"):
        footer = parquet.read_metadata(file)
        column = footer.schema.to_arrow_schema().get_field_index("order_id")
        for group in range(footer.num_row_groups):
            statistic = footer.row_group(group).column(column).statistics
            found = max(found, statistic.max if statistic is not None else -1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files-per-trigger", type=int, default=4)
    parser.add_argument("--archive", help="folder of a class archive, which is made if it does not exist")
    given = parser.parse_args()
    archive = given.archive or str(data.scratch() / "class-archive")
    ckpt = "from airflow_provider_ckpt.cli import main; raise SystemExit(main())"
    environ = {**os.environ, "CKPT_CLASS_ARCHIVE": archive}
    subprocess.run([sys.executable, "-c", ckpt, "class-archive"], env=environ, check=True, capture_output=True)
    found: list[Relaunch] = []
    for number in range(given.rounds):
        one = measure(given.files_per_trigger, archive)
        found.append(one)
        print(
            f"{number + 1}  checkpoint {one.checkpoint:5.1f} s  released {one.released:5.1f} s  "
            f"again {one.again:,} rows  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    for what, values in zip(fields(Relaunch), zip(*map(astuple, found), strict=True), strict=True):
        print(f"{what.name:10} {statistics.median(values):10,.1f} [{min(values):,.1f} … {max(values):,.1f}]")


if __name__ == "__main__":
    main()
