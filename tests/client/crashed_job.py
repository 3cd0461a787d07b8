"""Job that three drivers have run in turn, none of them to its end, with the files that each left. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders, attempts_before
from airflow_provider_ckpt.storage.layout import frozen_path, metadata_path, prepared_path, subtask_log_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import Batch, Open, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.client.ended_job import GONE
from tests.support.books import books

EDGE = "history__v"
GRAPH = JobGraph(
    (
        JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True),
        JobVertex("v", ("v",), ("v",), (), ("lake",), bounded=False),
    ),
    (JobEdge(EDGE, "history", "v", "v"),),
)
HISTORY, V = SubtaskId("history/0"), SubtaskId("v/0")
PARTITION, DATA = "orders/vertices/history/0/partition", f"{EDGE}/data"
FEEDS = f"{PARTITION}/{EDGE}/feeds"


class CrashedJob:
    """Job of two subtasks under ``folder``, which holds the root and the lake.

    ``storage`` replaces the storage of the root if it is given.
    """

    def __init__(self, folder: Path, storage: Storage | None = None) -> None:
        self.folder, self.root, self.lake = folder, folder / "root", folder / "lake"
        self.storage = open_root(open_storage(self.root)) if storage is None else storage
        self.sink = FileSink(str(self.lake))

    @classmethod
    def run(cls, folder: Path, status: JobStatus | None = JobStatus.STOPPED, worker: Worker = GONE) -> CrashedJob:
        """Run three drivers, each of which dies before it has deleted the files of its predecessors.

        Batch 1 is committed but not published.
        """
        job = cls(folder)
        journal = job.claimed(1)
        journal.write(ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), 1.0))
        journal.write(ev.PlanRecorded(GRAPH, {}, 1.0, job.definition()))
        job.storage.create(frozen_path("orders", "history"), b"{}")
        journal.write(ev.SourceFrozen("history", "frozen/history.json", 1, 1.0))
        for subtask in GRAPH.subtasks:
            log = job.begun(subtask, 1)
            batch = job.staged_batch(subtask, 1, 0)
            log.append_batch(batch)
            job.prepared(subtask).write(Prepared(AttemptId(1, 0, "n1"), 0, batch.files, batch.handles))
            snapshot = log.barrier(1, 2)
            if subtask == V:
                journal.write(ev.CheckpointCompleted(2, 1.0, 2.0, "checkpoint", {V: snapshot}, {}))
        for number in (1, 2):
            job.storage.create(metadata_path("orders", number), b"{}")
        job.storage.create("orders/deployments/0001/master-0001.json", b"{}")
        write_request(job.storage, "orders", StopRequest(epoch=1))
        job.second_and_third(status, worker)
        write_request(job.storage, "orders", StopRequest(exit_if_it_fails=True, epoch=3))
        return job

    def second_and_third(self, status: JobStatus | None, worker: Worker) -> None:
        for epoch in (2, 3):
            journal = self.claimed(epoch, worker)
            for subtask in GRAPH.subtasks:
                self.begun(subtask, epoch)
                self.staged_batch(subtask, epoch, 1, "lost")
                if epoch == 2:
                    batch = self.staged_batch(subtask, 2, 1, "kept")
                    self.prepared(subtask).write(Prepared(AttemptId(2, 0, "n2"), 1, batch.files, batch.handles))
        if status is not None:
            journal.write(ev.StatusChanged(status, 5.0))

    def definition(self) -> JobDefinition:
        return JobDefinition("streaming", {}, {}, {"lake": SinkDefinition("checkpoint", self.sink.definition())})

    def claimed(self, epoch: int, worker: Worker = GONE) -> Journal:
        journal = Journal(self.storage, "orders")
        journal.claim(f"shop~t{epoch}", worker, 1.0)
        return journal

    def log(self, subtask: SubtaskId) -> SubtaskLog:
        log = SubtaskLog(self.storage, subtask_log_path("orders", subtask.vertex, subtask.number))
        log.load()
        return log

    def home(self, subtask: SubtaskId) -> str:
        return f"orders/vertices/{subtask}"

    def prepared(self, subtask: SubtaskId) -> PreparedStore:
        return PreparedStore(self.storage, prepared_path("orders", subtask.vertex, subtask.number))

    def begun(self, subtask: SubtaskId, epoch: int) -> SubtaskLog:
        """Start a subtask as a driver does: write open, feed, folder and marker."""
        log = self.log(subtask)
        attempt = AttemptId(epoch, 0, f"n{epoch}")
        log.open(attempt)
        self.complete(subtask, attempt)
        return log

    def complete(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        if subtask == V:
            self.storage.create(f"{FEEDS}/{attempt.epoch:04d}/_spark_metadata/0", b"v1")
        self.storage.create(f"{self.home(subtask)}/spark/{attempt}/commits/1", b"data")
        self.storage.create(f"{self.home(subtask)}/spark/{attempt}.json", b"{}")

    def staged_batch(self, subtask: SubtaskId, epoch: int, number: int, nonce: str = "n") -> Batch:
        """Write the batch's data to the partition or the lake, and also the scratch copy that both are made from."""
        name = f"{AttemptId(epoch, 0, f'n{epoch}')}-{number}-{nonce}"
        self.storage.create(f"{self.home(subtask)}/scratch/{name}/0.parquet", b"data")
        if subtask == V:
            return Batch(number, {}, handles={"lake": self.stage(epoch, number, nonce)})
        self.storage.create(f"{PARTITION}/{DATA}/{name}/0.parquet", b"data")
        return Batch(number, {}, files=(PartitionFile(f"{DATA}/{name}/0.parquet", 4),))

    def stage(self, epoch: int, number: int, nonce: str) -> Handle:
        lake = FileFolders.open(Location(str(self.lake)))
        files = StagedFiles(lake, SinkContext("orders", "lake"))
        request = StageRequest(str(AttemptId(epoch, 0, f"n{epoch}")), number, nonce, counted)
        lake.books.create(f"{files.place(request.id)}/part-00000.json", b"{}")
        return files.handle(request, 1, 0, [("part-00000.json", 2)])

    def next_driver(self, epoch: int = 4) -> Iterator[None]:
        """Yield after each step of a driver that takes the job over.

        It publishes the committed batch, deletes superseded files and resumes.
        """
        self.claimed(epoch)
        yield
        previous: dict[SubtaskId, AttemptId] = {}
        logs: dict[SubtaskId, SubtaskLog] = {}
        attempt = AttemptId(epoch, 0, f"n{epoch}")
        for subtask in GRAPH.subtasks:
            logs[subtask] = self.log(subtask)
            logs[subtask].open(attempt)
            yield
        for subtask, log in logs.items():
            folders = AttemptFolders(self.storage, f"{self.home(subtask)}/spark")
            earlier_folder = folders.previous(log.records(), attempt)
            assert earlier_folder is not None
            assert self.storage.exists(f"{self.home(subtask)}/spark/{earlier_folder}/commits/1"), "it is gone"
            previous[subtask] = earlier_folder
            yield
            self.complete(subtask, attempt)
            yield
            kept = [self.prepared(subtask).read(earlier) for earlier in attempts_before(log.records(), attempt)]
            [prepared] = [prepared for prepared in kept if prepared is not None and prepared.batch_id == 1]
            log.append_batch(Batch(1, {}, files=prepared.files, handles=prepared.handles))
            yield
            folders.delete_before(attempt)
            self.prepared(subtask).delete_before(attempt)
            yield
            batch = self.staged_batch(subtask, epoch, 2)
            self.prepared(subtask).write(Prepared(attempt, 2, batch.files, batch.handles))
            yield
            log.append_batch(batch)
            yield
            self.staged_batch(subtask, epoch, 3)
        write_request(self.storage, "orders", StopRequest(epoch=epoch))

    # ---- contents

    def files(self) -> set[str]:
        """Return all files of the job except journal and logs."""
        existing = {path for path, _ in self.storage.files("orders")}
        return {path for path in existing if not path.startswith("journal/") and "/log/" not in path}

    def staged(self) -> list[str]:
        return open_storage(books(self.lake)).list("orders/lake/staging")

    def missing(self) -> list[str]:
        """Return the missing files and handles that live log entries or later prepared batches name."""
        gone: list[str] = []
        for subtask in GRAPH.subtasks:
            log = self.log(subtask)
            last = -1 if log.state.last_batch is None else log.state.last_batch.batch_id
            named: list[Any] = [record for _, record in log.records() if isinstance(record, Batch)]
            named += [prepared for prepared in self.prepared(subtask).read_all() if prepared.batch_id > last]
            files = [file.path for batch in named for file in batch.files]
            gone += [path for path in files if not self.storage.exists(f"{PARTITION}/{path}")]
            gone += [
                handle["id"] for batch in named for handle in batch.handles.values() if not self._is_staged(handle)
            ]
            newest = [record.attempt for _, record in log.records() if isinstance(record, Open)][-1]
            marker = f"{self.home(subtask)}/spark/{newest}.json"
            gone += [] if self.storage.exists(marker) else [marker]
        return gone

    def _is_staged(self, handle: Handle) -> bool:
        return handle["id"] in self.staged()
