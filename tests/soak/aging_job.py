"""An aging job: two vertices, of which the second reads the first, run by one driver after the other.

Journal, logs and retention are real. No query runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, CheckpointTriggered
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

GRAPH = JobGraph(
    (
        JobVertex("a", ("a",), ("a",), (), (), bounded=False),
        JobVertex("b", ("b",), (), (), ("out",), bounded=False),
    ),
    (JobEdge("a__b", "a", "b", "b"),),
)
A, B = GRAPH.subtasks
LOOK_EACH = 10
"""Checkpoints between two counts of the files."""


@dataclass(frozen=True)
class Age:
    """Size of the job at one age. ``size``: bytes; ``in_memory``: log entries in the driver's memory."""

    files: int
    size: int
    in_memory: int


class AgingJob:
    """An aging job. ``each``: checkpoints between two batches; 0: a single batch, in the first run."""

    def __init__(self, storage: Storage, each: int) -> None:
        self.storage, self.each = storage, each
        self.ages: list[Age] = []
        self.times: list[float] = []
        """Seconds that each checkpoint of the last run took, including retention."""
        self.restarted = 0.0
        """Seconds that the last driver took to take the job over."""
        self._batches = self._checkpoint = 0

    def run(self, checkpoints: int) -> None:
        """Take the job over, complete and release so many checkpoints, and leave."""
        begun, self.times = time.perf_counter(), []
        claimed = Journal(self.storage, "job")
        epoch = claimed.claim(f"t{len(self.ages)}", Worker(), 0.0)
        self.journal = OwnedJournal(claimed)
        self.logs = {name: self._opened(name, epoch) for name in (A, B)}
        self.restarted = time.perf_counter() - begun
        retention = Retention(
            self.storage, "job", lambda: GRAPH, self.journal, self.logs, retained=3, final_only=frozenset()
        )
        if not self._batches:
            self._publish()
        for number in range(checkpoints):
            begun = time.perf_counter()
            self._complete(epoch)
            retention.completed(self._checkpoint)
            retention._thread.submit(_nothing).result()  # waits for the retention of this checkpoint
            self.times.append(time.perf_counter() - begun)
            if number % LOOK_EACH == 0:
                self._look()
        retention.close()

    def _opened(self, name: SubtaskId, epoch: int) -> SubtaskLog:
        log = SubtaskLog(self.storage, subtask_log_path("job", name.vertex, name.number))
        log.load()
        log.open(AttemptId(epoch, 0, "x"))
        return log

    def _complete(self, epoch: int) -> None:
        self._checkpoint += 1
        if self.each and self._checkpoint % self.each == 0:
            self._publish()
        number = self._checkpoint
        self.journal.write(CheckpointTriggered(number, 0.0))
        subtasks: dict[SubtaskId, Snapshot] = {name: log.barrier(epoch, number) for name, log in self.logs.items()}
        self.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))
        self.journal.write(CheckpointReleased(number, 1.0, {"out": {"rows": 1}}))

    def _publish(self) -> None:
        number, self._batches = self._batches, self._batches + 1
        path = f"a__b/data/0001-x-{number}-n/part-0"
        self.storage.create(f"{partition_path('job', 'a', 0)}/{path}", b"rows")
        offsets = {"a": f'{{"logOffset":{number}}}'}
        position = self.logs[A].append_batch(Batch(number, offsets, files=(PartitionFile(path, 4),)))
        handles = {"out": {"id": f"h{number}", "rows": 1}}
        self.logs[B].append_batch(Batch(number, {}, inputs={"a__b": position + 1}, handles=handles))

    def _look(self) -> None:
        """Count the files and entries. Retention is idle during the count."""
        files = self.storage.files("")
        in_memory = sum(len(log.records()) + len(log.state.barriers) for log in self.logs.values())
        self.ages.append(Age(len(files), sum(size for _, size in files), in_memory))


def _nothing() -> None:
    pass
