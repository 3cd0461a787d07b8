"""FINISHED job that keeps a result for other jobs. It has three vertices; the middle one has ``persist=True``."""

from __future__ import annotations

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

JOB = "days"
GRAPH = JobGraph(
    (
        JobVertex("read", ("read",), ("read",), ("read",), (), bounded=True, parallelism=2, splits=True),
        JobVertex("clean", ("clean",), (), (), (), bounded=True, parallelism=2, persist=True),
        JobVertex("count", ("count",), (), (), (), bounded=True),
    ),
    (JobEdge("read__clean", "read", "clean", "clean"), JobEdge("clean__count", "clean", "count", "count")),
)
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
EDGES = {"read": "read__clean", "clean": "clean__count"}


class PersistedJob:
    """Job whose subtasks have each published two batches of two files, after an attempt that failed.

    Each file has three bytes. Each batch has three rows.
    """

    def __init__(self, storage: Storage, status: JobStatus = JobStatus.FINISHED) -> None:
        self.storage = open_root(storage)
        journal = Journal(self.storage, JOB)
        journal.claim("t1", Worker(), 1.0)
        journal.write(ev.JobCreated(JOB, GRAPH, "batch", SubmittedOptions(), 1.0))
        schemas = {vertex.uid: SCHEMA for vertex in GRAPH.vertices}
        journal.write(ev.PlanRecorded(GRAPH, schemas, 1.0, JobDefinition("batch", {}, {}, {})))
        journal.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
        for subtask in GRAPH.subtasks:
            self._run(subtask)
        journal.write(ev.StatusChanged(status, 5.0))

    def _run(self, subtask: SubtaskId) -> None:
        log = SubtaskLog(self.storage, subtask_log_path(JOB, subtask.vertex, subtask.number))
        log.load()
        log.open(AttemptId(1, 0, "aa"))
        log.append_batch(self.write_batch(subtask, "0001-aa", 0))
        log.open(AttemptId(1, 1, "bb"), 0)
        for number in range(2):
            log.append_batch(self.write_batch(subtask, "0001-01-bb", number))
        log.end_of_data("finish")
        log.end_of_partition()

    def write_batch(self, subtask: SubtaskId, attempt: str, batch: int) -> Batch:
        edge = EDGES.get(subtask.vertex, "none")
        folder, names = f"{edge}/data/{attempt}-{batch}-n", ("part-0", "part-1")
        for name in (*names, "_SUCCESS"):
            self.storage.create(f"{self.partition(subtask)}/{folder}/{name}", b"row")
        return Batch(batch, {}, files=tuple(PartitionFile(f"{folder}/{name}", 3) for name in names), rows=3)

    def partition(self, subtask: SubtaskId) -> str:
        return partition_path(JOB, subtask.vertex, subtask.number)

    def data(self) -> list[str]:
        """Return the paths of all files besides logs and the journal."""
        paths = [path for path, _ in self.storage.files(f"{JOB}/vertices") if "/log/" not in path]
        return sorted(paths)


PERSISTED_FILES = sorted(
    f"clean/{number}/partition/clean__count/data/0001-01-bb-{batch}-n/{name}"
    for number in range(2)
    for batch in range(2)
    for name in ("_SUCCESS", "part-0", "part-1")
)
