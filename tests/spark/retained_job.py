"""Job of two vertices whose checkpoints are retained and deleted."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, Open, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

GRAPH = JobGraph(
    (
        JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True),
        JobVertex("b", ("b",), (), (), ("out",), bounded=True),
    ),
    (JobEdge("a__b", "a", "b", "b"),),
)
A, B = GRAPH.subtasks


class RetainedJob:
    """A job with one checkpoint for each batch.

    Checkpoint *n* lies at position 2*n* of each log, after the batch at 2*n* - 1. The batch of "b" has read the batch
    of "a".
    """

    def __init__(
        self, storage: Storage, *, retained: int = 2, final_only: Collection[str] = (), graph: JobGraph = GRAPH
    ) -> None:
        self.storage, self.graph = storage, graph
        journal = Journal(storage, "job")
        journal.claim("t", Worker(), 0.0)
        self.journal = OwnedJournal(journal)
        self.logs = {name: SubtaskLog(storage, subtask_log_path("job", name.vertex, name.number)) for name in (A, B)}
        for log in self.logs.values():
            log.load()
            log.open(AttemptId(1, 0, "1"))
        self.retention = self.next_master(retained=retained, final_only=final_only)

    def live(self, checkpoints: int, *, released: int | None = None) -> RetainedJob:
        """Complete the first ``checkpoints`` checkpoints. ``released``: the last released one (None: all)."""
        for number in range(1, checkpoints + 1):
            self.complete(number)
            if released is None or number <= released:
                self.journal.write(CheckpointReleased(number, 1.0, {}))
            self.retention.completed(number)
            self.retention._thread.submit(int).result()  # waits for its deletions
        self.retention.close()
        return self

    def idle(self, checkpoints: range, *, released: int | None = None) -> None:
        """Complete checkpoints without new data under a new driver. ``released``: later ones are released."""
        self.retention = self.next_master()
        for number in checkpoints:
            self.checkpoint(number)
            if released is not None and number > released:
                self.journal.write(CheckpointReleased(number, 1.0, {}))
            self.retention.completed(number)
            self.retention._thread.submit(int).result()
        self.retention.close()

    def complete(self, number: int) -> None:
        path = f"a__b/data/0001-1-{number}-n"
        for name in ("part-0", "_SUCCESS", ".part-0.crc"):
            self.storage.create(f"{partition_path('job', 'a', 0)}/{path}/{name}", b"rows")
        self.logs[A].append_batch(Batch(number, {}, files=(PartitionFile(f"{path}/part-0", 4),)))
        handle = {"id": f"h{number}", "rows": 1}
        self.logs[B].append_batch(Batch(number, {}, inputs={"a__b": 2 * number}, handles={"out": handle}))
        self.checkpoint(number)

    def checkpoint(self, number: int) -> None:
        subtasks = {uid: log.barrier(1, number) for uid, log in self.logs.items()}
        self.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))

    def next_master(self, *, retained: int = 2, final_only: Collection[str] = ()) -> Retention:
        return Retention(
            self.storage,
            "job",
            lambda: self.graph,
            self.journal,
            self.logs,
            retained=retained,
            final_only=frozenset(final_only),
        )

    def positions(self, uid: str) -> list[int]:
        """Return the positions that a new reader finds from the head on, without the entries that fence zombies."""
        log = SubtaskLog(self.storage, subtask_log_path("job", uid, 0))
        log.load()
        records = [number for number, record in log.records() if not isinstance(record, Open)]
        return [number for number in records if number >= self.head(uid)]

    def head(self, uid: str) -> int:
        names = self.storage.list(subtask_log_path("job", uid, 0))
        return max((int(name[5:-5]) for name in names if name.startswith("head-")), default=0)

    def left(self) -> tuple[list[int], list[int], list[int]]:
        return self.data(), self.positions("a"), self.positions("b")

    def data(self) -> list[int]:
        """Return the batches that have data in the partition."""
        return sorted(
            int(name.split("-")[2]) for name in self.storage.list(f"{partition_path('job', 'a', 0)}/a__b/data")
        )
