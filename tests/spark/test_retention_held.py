"""Retention by all retained checkpoints, and its cost if nothing can be deleted. No Spark runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.retained_job import A, B, RetainedJob


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"memory://{tmp_path}")


@pytest.fixture
def truncate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_a_returned_consumer_keeps_data_after_its_former_position(storage: Storage) -> None:
    """A reader "b" of 10 batches was dropped and has returned.

    It begins at 0 and reads the remaining batches of "a". The oldest retained checkpoint has the position of its
    earlier life.
    """
    job = RetainedJob(storage, retained=3)
    for number in range(1, 11):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        job.retention.completed(number)
    job.retention.close()
    assert job.data() == [8, 9, 10]  # "a" has batch n at 2n - 1
    # the next life of "b": it is fed the remaining batches of "a" and has not published
    job.logs[B].open(AttemptId(2, 0, "2"), 0)
    job.logs[A].open(AttemptId(2, 0, "2"))
    for number in (11, 12):
        subtasks = {name: log.barrier(2, number) for name, log in job.logs.items()}
        assert subtasks[B].inputs == {}
        job.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))
        master = job.next_master(retained=3)
        master.completed(number)
        master.close()
    assert job.data() == [8, 9, 10]
    again = SubtaskLog(storage, subtask_log_path("job", "a", 0))
    again.load()
    assert [record.batch_id for _, record in again.records() if isinstance(record, Batch)] == [8, 9, 10]


class Counting(WrappedStorage):
    reads = 0

    def read(self, path: str) -> bytes:
        Counting.reads += "/log/" in path and "/b/0/" in path
        return super().read(path)


def test_a_held_log_is_not_read_again_and_again(storage: Storage) -> None:
    """The gate of a sink is closed, or a sink releases only at the end.

    Nothing can be deleted, and the driver must not read the whole log again and again for that.
    """
    counted = Counting(storage)
    job = RetainedJob(counted, final_only={"out"})
    reads = []
    for number in range(1, 161):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        job.retention.completed(number)
        job.retention._thread.submit(int).result()
        if number % 32 == 0:
            reads.append(Counting.reads)
            Counting.reads = 0
    assert max(reads) < 100, reads
