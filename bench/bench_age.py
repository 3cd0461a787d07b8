"""Growth of a job with its age, in time and size: journal, logs and retention without Spark, on a local disk.

    python bench/bench_age.py [--checkpoints 10000] [--folder /dev/shm]

The figures are ratios of the last tenth of the job's life to the second tenth; 1 is flat. A driver takes the job over
after each tenth.

checkpoint  from trigger to release, with the work of retention (median)
show        replay of the journal
restart     claim of the journal, and load and open of the logs
files, bytes, entries in memory: the greatest number in each tenth
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.opening import open_storage
from tests.soak.aging_job import AgingJob

TENTHS = 10


def measure(folder: str, each: int, checkpoints: int) -> list[dict[str, float]]:
    storage = open_storage(f"{folder}/{each}")
    job = AgingJob(storage, each)
    found = []
    for _ in range(TENTHS):
        looks = len(job.ages)
        job.run(checkpoints // TENTHS)
        ages = job.ages[looks:]
        begun = time.perf_counter()
        Journal(storage, "job").replay()
        found.append(
            {
                "checkpoint": statistics.median(job.times),
                "restart": job.restarted,
                "show": time.perf_counter() - begun,
                "files": max(age.files for age in ages),
                "bytes": max(age.size for age in ages),
                "in memory": max(age.in_memory for age in ages),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=10_000)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, each in (("idle", 0), ("busy", 1)):
            tenths = measure(folder, each, arguments.checkpoints)
            for what, young in tenths[1].items():
                old = tenths[-1][what]
                print(f"{name:5} {what:10} {old / young:5.2f}   ({young:.4g} -> {old:.4g})")


if __name__ == "__main__":
    main()
