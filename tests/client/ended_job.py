"""Job that has ended, as its drivers left it. It has two vertices, and a file sink with released and staged output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.storage.layout import frozen_path, metadata_path, subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.support.books import books

GRAPH = JobGraph(
    (
        JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True),
        JobVertex("v", ("v",), ("v",), (), ("lake",), bounded=False),
    ),
    (),
)
GONE = replace(identify(), started="0")
HERE = identify()
ELSEWHERE = Worker(host="worker-7", pid=4711)


@dataclass(frozen=True)
class SinkOn(FileSink):
    """File sink that writes through the given storage."""

    storage: Any = None

    def bind(self, context: SinkContext) -> BoundFileSink:
        return self.bind_to(self.storage, context)


class EndedJob:
    """Ended job below ``folder``, which holds the root and the lake. :meth:`run` fills an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.lake = folder, folder / "root", folder / "lake"
        self.storage = open_root(open_storage(self.root))
        self.sink = FileSink(str(self.lake))

    @classmethod
    def run(
        cls, folder: Path, status: JobStatus | None = JobStatus.FINISHED, worker: Worker = GONE, *, released: int = 2
    ) -> EndedJob:
        """Write two checkpoints, ``released`` of them released, and one more batch that no checkpoint covers."""
        job = cls(folder)
        journal = job.claimed("shop~t1", worker)
        definition = JobDefinition(
            "streaming", {}, {}, {"lake": SinkDefinition("every_checkpoint", job.sink.definition())}
        )
        journal.write(ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), 1.0))
        journal.write(ev.PlanRecorded(GRAPH, {}, 1.0, definition))
        journal.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
        job._history()
        job._batches(journal, released)
        if status is not None and status is not JobStatus.RUNNING:
            journal.write(ev.StatusChanged(status, 5.0, "boom" if status is JobStatus.FAILED else None))
        return job

    def claimed(self, attempt: str, worker: Worker = GONE) -> Journal:
        journal = Journal(self.storage, "orders")
        journal.claim(attempt, worker, 1.0)
        return journal

    def _history(self) -> None:
        log = self._log("history")
        log.open(AttemptId(1, 0, "h1"))
        log.append_batch(Batch(0, {}))
        log.end_of_data("finish")
        log.end_of_partition()
        home = subtask_path("orders", "history", 0)
        for path in (f"{home}/partition/a/0.parquet", f"{home}/spark/0001-h1/commits/0", f"{home}/spark/0001-h1.json"):
            self.storage.create(path, b"data")
        self.storage.create(frozen_path("orders", "history"), b"{}")
        write_request(self.storage, "orders", StopRequest(epoch=1))

    def _batches(self, journal: Journal, released: int) -> None:
        log, bound = self._log("v"), self.sink.bind(SinkContext("orders", "lake"))
        log.open(AttemptId(1, 0, "a1"))
        for number in (1, 2):
            handle = self.stage("0001-a1", number)
            log.append_batch(Batch(number, {}, handles={"lake": handle}))
            snapshot = log.barrier(1, number)
            journal.write(ev.CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {SubtaskId("v/0"): snapshot}, {}))
            self.storage.create(metadata_path("orders", number), b"{}")
            if number <= released:
                journal.write(ev.CheckpointReleased(number, 2.0, {"lake": bound.release([handle], number)}))
        log.append_batch(Batch(3, {}, handles={"lake": self.stage("0001-a1", 3)}))

    def _log(self, vertex: str) -> SubtaskLog:
        log = SubtaskLog(self.storage, subtask_log_path("orders", vertex, 0))
        log.load()
        return log

    def stage(self, attempt: str, batch: int) -> Handle:
        """Stage a batch as :meth:`BoundSink.stage` does."""
        lake = FileFolders.open(Location(str(self.lake)))
        files = StagedFiles(lake, SinkContext("orders", "lake"))
        request = StageRequest(attempt, batch, f"n{batch}", counted)
        lake.books.create(f"{files.place(request.id)}/part-00000.json", b"{}")
        return files.handle(request, 1, 0, [("part-00000.json", 2)])

    def definition(self, lake: Storage) -> Job:
        """Return the job as it ran, with a sink that writes through ``lake``."""
        job = Job("orders")

        @job.source(uid="v")
        def live(read: Any) -> Any:
            raise AssertionError("nothing calls the job's functions")

        job.sink("lake", live, SinkOn(str(self.lake), storage=lake))
        return job

    @property
    def client(self) -> JobClient:
        return JobClient(self.root, "orders")

    def staged(self) -> list[str]:
        """Return the ids of the staged batches."""
        return open_storage(books(self.lake)).list("orders/lake/staging")

    def output(self) -> dict[str, bytes]:
        """Return the lake's files outside staging: released output and the manifests that record it."""
        files = [path for path in self.lake.rglob("*") if path.is_file() and "staging" not in path.parts]
        return {str(path.relative_to(self.lake)): path.read_bytes() for path in files}

    def parts(self) -> list[str]:
        """Return the names of the job's folders under the root."""
        return self.storage.list("orders")

    def files(self) -> dict[str, bytes]:
        """Return the job's files except its journal."""
        home = self.root / "orders"
        paths = [path for path in home.rglob("*") if path.is_file() and "journal" not in path.parts]
        return {str(path.relative_to(home)): path.read_bytes() for path in paths}
