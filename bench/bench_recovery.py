"""Recovery of a job in batch mode with many finished splits: replay of the journal, and check of logs and results.

    python bench/bench_recovery.py [--splits 100000] [--together 1] [--lost 100] [folder]

Four subtasks have published all splits, --together of them in one entry with one file. The files lie on a local disk
(the folder decides which), each in a folder as Spark writes it. The files of --lost splits are gone. Spark is not
started. A process of its own measures:

replay     replay of the journal
reconcile  read of the logs, listing of the partitions, and decision about the lost files
memory     peak memory of that process

Target: both times within 5 s, and 300 MB, for 100,000 splits.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import freeze_splits
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.split import Split, ranges
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from bench import data

HOME = str(Path(__file__).resolve().parent.parent)
JOB, SUBTASKS = "bench", 4
SOURCE = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), True, SUBTASKS, splits=True)
GRAPH = JobGraph((SOURCE, JobVertex("all", ("all",), (), (), ("out",), True)), (JobEdge("e", "parts", "all", "all"),))


def make(root: Path, splits: int, together: int, lost: int) -> None:
    storage = open_storage(str(root))
    journal = Journal(storage, JOB)
    journal.claim("t1", Worker(), 0.0)
    journal.write(ev.PlanRecorded(GRAPH, {}, 1.0, JobDefinition("batch", {}, {}, {})))
    freeze_splits(storage, f"{JOB}/frozen/parts.json", "parts", [Split(str(n), n) for n in range(splits)])
    journal.write(ev.SourceFrozen("parts", "frozen/parts.json", splits, 1.0))
    logs = {subtask: SubtaskLog(storage, subtask_log_path(JOB, "parts", subtask.number)) for subtask in SOURCE.subtasks}
    for subtask, log in logs.items():
        log.load()
        log.open(AttemptId(1, 0, f"{subtask.number:08x}"))
    for number in range(0, splits, together):
        subtask, several = SOURCE.subtasks[number // together % SUBTASKS], range(number, min(number + together, splits))
        path = f"e/data/0001-{subtask.number:08x}-{number}-000000000000/part-00000-c000.snappy.parquet"
        if number >= lost:
            file = root / partition_path(JOB, "parts", subtask.number) / path
            file.parent.mkdir(parents=True)
            file.write_bytes(b"1")
        logs[subtask].append_batch(Batch(number, {}, files=(PartitionFile(path, 1),), splits=tuple(map(str, several))))
        journal.write(ev.SplitsDone("parts", subtask, ranges(several), 2.0))
    for subtask, log in logs.items():
        log.end_of_data("finish")
        journal.write(ev.SubtaskEndOfData(subtask, "0001", 3.0))
    journal.write(ev.StatusChanged(JobStatus.RESTARTING, 4.0, "lost"))


def measure(root: Path) -> None:
    storage = open_storage(str(root))
    begun = time.perf_counter()
    state = Journal(storage, JOB).replay()
    replayed = time.perf_counter()
    found = Reconciler(storage, JOB).reconcile(state)
    done = time.perf_counter()
    assert found is not None
    again = sum(b - a for one in found.resets.values() for a, b in one.splits or ())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"replay {replayed - begun:.2f} s, reconcile {done - replayed:.2f} s, {peak:.0f} MB; {again} splits again")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=100_000)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--lost", type=int, default=100)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?")
    args = parser.parse_args()
    if args.root:
        measure(Path(args.root))
        return
    base = Path(args.folder) if args.folder else data.scratch()
    root = base / "recovery"
    shutil.rmtree(root, ignore_errors=True)
    make(root, args.splits, args.together, args.lost)
    for _ in range(3):
        subprocess.run([sys.executable, __file__, "--root", str(root)], check=True, cwd=HOME)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
