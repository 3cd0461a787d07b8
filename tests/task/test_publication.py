"""Entries that a task appends to its log, and its reports of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import BarrierAcknowledged, BarrierDeclined, Report
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.publication import Publication
from airflow_provider_ckpt.testing.crash import WrappedStorage


class MasterRestartPolicy(WrappedStorage):
    """A storage that refuses every entry that contains ``text``."""

    def __init__(self, inner: Storage, text: bytes) -> None:
        super().__init__(inner)
        self.text = text

    def create(self, path: str, data: bytes) -> None:
        if self.text in data:
            raise StorageTransientError(verb="create", uri=path, reason="Input/output error")
        super().create(path, data)


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[bytes], tuple[Publication, list[str]]]:
    def made(text: bytes) -> tuple[Publication, list[str]]:
        log, told = SubtaskLog(MasterRestartPolicy(MemoryStorage(request.node.name), text), "log"), list[str]()
        log.load()
        log.open(AttemptId.first(1, "a"))

        def tell(report: Report) -> None:
            told.append(type(report).__name__)

        task_id = TaskId(1, SubtaskId("v/0"), AttemptId.first(1, "a"))
        return Publication(log, task_id, post=tell, notify=lambda: None), told

    return made


Make = Callable[[bytes], tuple[Publication, list[str]]]


def test_a_barrier_is_acknowledged(make: Make) -> None:
    publication, told = make(b"nothing like it")
    assert publication.trigger(1)
    assert told == [BarrierAcknowledged.__name__]


def test_r10_a_barrier_that_the_storage_does_not_take_is_declined(make: Make) -> None:
    publication, told = make(b'"Barrier"')
    assert not publication.trigger(1)
    assert told == [BarrierDeclined.__name__]


def test_of_a_log_that_a_failed_batch_has_broken_nothing_is_declined(make: Make) -> None:
    """A declined checkpoint counts as a failure of the job.

    The task's failure is already being reported, and the task can restart.
    """
    publication, told = make(b'"Batch"')
    with pytest.raises(StorageTransientError):
        publication.publish(Batch(0, {}))
    assert not publication.trigger(1)
    assert told == []
