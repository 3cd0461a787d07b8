"""Failed reads of a subtask's log.

A JobMaster on another host reads the log by its tail, and one read fails after some entries were read. The JobMaster
must not act on a part of the log.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.sink_releases import SinkReleases
from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.support.release_recorder import ReleaseRecorder

GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), (), ("s",), bounded=False),), ())
(V,) = GRAPH.subtasks


class Flaky(WrappedStorage):
    fails: str | None = None

    def read(self, path: str) -> bytes:
        if self.fails is not None and path.endswith(self.fails):
            self.fails = None
            raise StorageTransientError(verb="read", uri=self.full_uri(path), reason="503")
        return super().read(path)


class Job:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        journal = Journal(storage, "job")
        journal.claim("t", Worker(), 0.0)
        self.journal = OwnedJournal(journal)
        self.path = subtask_log_path("job", V.vertex, V.number)
        self.writer = SubtaskLog(storage, self.path)
        self.writer.load()
        self.writer.open(AttemptId(1, 0, "1"))
        self.flaky = Flaky(storage)
        self.logs = {V: TailingLogReader(self.flaky, self.path)}
        assert len(self.logs[V].records()) == 1  # the JobMaster has started and read it

    def publish(self, number: int) -> int:
        return self.writer.append_batch(
            Batch(number, {"s": f"{number}"}, handles={"s": {"id": f"h{number}", "rows": 1}})
        )

    def complete(self, number: int) -> CheckpointCompleted:
        completed = CheckpointCompleted(number, 0.0, 1.0, "checkpoint", {V: self.writer.barrier(1, number)}, {})
        self.journal.write(completed)
        return completed


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"memory://{tmp_path}")


def test_r9_a_release_after_a_failed_read_is_complete(storage: Storage) -> None:
    job, sink = Job(storage), ReleaseRecorder()
    for number in range(1, 4):
        job.publish(number)
    releases = SinkReleases("job", lambda: GRAPH, job.logs, {"s": sink}, ReleasePolicies())  # type: ignore[dict-item]
    first = job.complete(1)
    job.flaky.fails = "00000002.json"
    try:
        releases.carry_out("s", first, {})
    except StorageTransientError:  # the coordinator would ask again
        releases.carry_out("s", first, {})
    job.publish(4)
    releases.carry_out("s", job.complete(2), {"s": SinkProgress(first)})
    assert sink.released == ["h1", "h2", "h3", "h4"]


def test_r7_a_failed_read_keeps_the_log_from_truncation(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log must not be truncated either, because batches without released handles would be deleted."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)
    job = Job(storage)
    for number in range(1, 3):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
    assert job.logs[V].records()[-1][0] == 2
    job.complete(3)  # checkpoint 3 covers no batch
    first = job.publish(1)
    for number in range(2, 5):
        job.publish(number)
    master = Retention(job.storage, "job", lambda: GRAPH, job.journal, job.logs, retained=1, final_only=frozenset())
    job.complete(4)  # the gate is closed, so neither 3 nor 4 is released
    job.flaky.fails = f"{first:08d}.json"
    master.completed(4)
    master.close()
    again = SubtaskLog(storage, job.path)
    again.load()
    handles = [record.handles["s"]["id"] for _, record in again.records() if isinstance(record, Batch)]
    assert handles == ["h1", "h2", "h3", "h4"]
