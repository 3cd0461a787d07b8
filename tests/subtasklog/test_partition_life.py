"""Result partition from its first file to its last: which process may delete which files, and when
(docs/partitions.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.retention.collector import clean_up, collect_garbage
from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics, partitions_with_metrics
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import StorageReadOnlyError
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.client.ended_job import GRAPH as ENDED_GRAPH
from tests.client.ended_job import EndedJob
from tests.support.refusing_storage import RefusingStorage

GRAPH = JobGraph(
    (
        JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True),
        JobVertex("b", ("b",), (), (), (), bounded=True),
    ),
    (JobEdge("e", "a", "b", "b"),),
)
A, _ = GRAPH.subtasks
PARTITION = partition_path("job", "a", 0)


class Life:
    """Result partition of a/0, before any attempt has started."""

    def __init__(self, folder: Path) -> None:
        self.storage = open_storage(f"memory://{folder}")
        self.journal = Journal(self.storage, "job")
        self.logs: dict[SubtaskId, SubtaskLog] = {}

    def begin(self, epoch: int, number: int = 0, *, continues_at: int | None = None) -> SubtaskLog:
        """Start an attempt of each subtask.

        It belongs to the current epoch, or to ``epoch`` if that is later and must be claimed first.
        """
        if self.journal.refresh().epoch < epoch:
            self.journal.claim("t", Worker(), 1.0)
            self.journal.write(ev.PlanRecorded(GRAPH, {}, 1.0, JobDefinition("batch", {}, {}, {})))
        for at, name in enumerate(GRAPH.subtasks):
            log = self.logs[name] = SubtaskLog(self.storage, subtask_log_path("job", name.vertex, name.number))
            log.load()
            log.open(AttemptId(epoch, number, f"n{at}"), continues_at if name == A else None)
        return self.logs[A]

    def write_batch(self, attempt: str, batch: int) -> Batch:
        """Write the files of a batch that no entry names."""
        folder = f"e/data/{attempt}-{batch}-x"
        for name in ("part-0", "_SUCCESS"):
            self.storage.create(f"{PARTITION}/{folder}/{name}", b"rows")
        return Batch(batch, {}, files=(PartitionFile(f"{folder}/part-0", 4),), rows=1)

    def collect(self) -> int:
        epoch, fence = self.journal.state.epoch, self.journal.check_fenced
        return collect_garbage(self.storage, "job", GRAPH, self.logs, {}, epoch, fence)

    def folders(self) -> list[str]:
        return self.storage.list(f"{PARTITION}/e/data")

    def metrics(self) -> tuple[PartitionWithMetrics, ...]:
        return partitions_with_metrics(self.storage, self.journal.refresh())


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


# ---- attempts


def test_r5_a_collection_keeps_files_of_a_running_attempt(
    life: Life,
) -> None:
    """The collector of a driver that prepares again knows only the name of a running attempt."""
    log = life.begin(1)
    published = life.write_batch("0001-n0", 0)
    assert (life.collect(), life.folders(), life.metrics()) == (0, ["0001-n0-0-x"], ())
    log.append_batch(published)
    assert life.metrics() == (PartitionWithMetrics(A, 1, 4, 1, None, False),)
    life.write_batch("0001-n0", 1)
    assert (life.collect(), life.folders()) == (0, ["0001-n0-0-x", "0001-n0-1-x"])
    log.end_of_data("finish")
    log.end_of_partition()
    assert (life.collect(), life.folders()) == (0, ["0001-n0-0-x", "0001-n0-1-x"])
    assert life.metrics() == (PartitionWithMetrics(A, 1, 4, 1, None, True),)


def test_r5_unpublished_files_of_a_failed_attempt_are_deleted(life: Life) -> None:
    life.begin(1).append_batch(life.write_batch("0001-n0", 0))
    life.write_batch("0001-n0", 1)
    life.begin(2)
    assert [life.collect(), life.collect()] == [1, 0]
    assert life.folders() == ["0001-n0-0-x"]


def test_an_attempt_that_wrote_nothing_leaves_no_files(life: Life) -> None:
    life.begin(1)
    log = life.begin(1, number=1)
    assert (life.collect(), life.folders(), life.metrics()) == (0, [], ())
    log.append_batch(life.write_batch("0001-01-n0", 0))
    assert (life.collect(), life.folders()) == (0, ["0001-01-n0-0-x"])


def test_r23_the_next_driver_deletes_files_of_a_void_attempt(life: Life) -> None:
    """Both attempts publish the same batch."""
    life.begin(1).append_batch(life.write_batch("0001-n0", 0))
    log = life.begin(1, number=1, continues_at=0)
    log.append_batch(life.write_batch("0001-01-n0", 0))
    assert life.collect() == 1
    assert life.folders() == ["0001-01-n0-0-x"]


def test_r3_a_fenced_attempt_publishes_nothing_at_its_end(life: Life) -> None:
    """Its driver was lost after it had written its last batch, and no subtask waits for the batch.

    The next driver deletes its files; files that appear later are deleted by the driver after that.
    """
    overtaken = life.begin(1)
    late = life.write_batch("0001-n0", 0)
    life.begin(2)
    assert life.collect() == 1
    late = life.write_batch("0001-n0", 0)
    with pytest.raises(LogFencedError):
        overtaken.append_batch(late)
    with pytest.raises(LogFencedError):
        overtaken.end_of_data("finish")
    assert life.metrics() == ()
    life.begin(3)
    assert (life.collect(), life.folders()) == (1, [])


# ---- the end of the job


@pytest.mark.parametrize(
    "status", [status for status in JobStatus if status not in (JobStatus.DELETING, JobStatus.DELETED)]
)
def test_r16_the_clean_up_deletes_partitions_of_finished_jobs_only(status: JobStatus, tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, status)
    before = job.files()
    clean_up(job.storage, "orders", ENDED_GRAPH, {})
    gone = {path for path in before.keys() - job.files().keys() if "/partition/" in path}
    assert gone == ({"vertices/history/0/partition/a/0.parquet"} if status is JobStatus.FINISHED else set())
    if status is not JobStatus.FINISHED:
        assert job.files() == before


def test_the_clean_up_deletes_all_folders_but_the_refused_one(tmp_path: Path) -> None:
    whole, job = EndedJob.run(tmp_path / "whole"), EndedJob.run(tmp_path / "job")
    clean_up(whole.storage, "orders", ENDED_GRAPH, {"lake": whole.sink.bind(SinkContext("orders", "lake"))})
    stays = f"{partition_path('orders', 'history', 0)}"
    with pytest.raises(StorageReadOnlyError, match=stays):
        sink = job.sink.bind(SinkContext("orders", "lake"))
        clean_up(RefusingStorage(job.storage, lambda path: path == stays), "orders", ENDED_GRAPH, {"lake": sink})
    assert {path for path in job.files() if "/partition/" not in path} == set(whole.files())
    assert job.staged() == whole.staged()


def test_late_files_of_a_finished_job_are_deleted_at_the_next_start(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    clean_up(job.storage, "orders", ENDED_GRAPH, {})
    left = job.files()
    job.storage.create(f"{partition_path('orders', 'history', 0)}/a/data/0001-h1-7-n/part-0", b"rows")
    clean_up(job.storage, "orders", ENDED_GRAPH, {})
    assert job.files() == left


def test_the_clean_up_keeps_temporary_files_of_other_jobs(tmp_path: Path) -> None:
    """``<root>/orders/out`` is the folder of another job's sink, which is writing an object at this moment."""
    job = EndedJob.run(tmp_path)
    write_batch = [job.root / "orders" / place / f".tmp-{'0' * 16}" for place in ("out", "out/journal", "journal")]
    for path in write_batch:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12")
    clean_up(open_storage(job.root), "orders", ENDED_GRAPH, {})
    assert [path.exists() for path in write_batch] == [True, True, False]


def test_the_clean_up_of_an_unknown_job_changes_nothing(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    before = job.storage.files("")
    clean_up(job.storage, "visits", ENDED_GRAPH, {})
    assert job.storage.files("") == before
