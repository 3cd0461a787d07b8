"""A vertex in BATCH mode, between the driver's loop and its own thread.

The vertex reports its log entries in the order of the log, and a barrier does not wait for Spark. No Spark runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import BarrierAcknowledged, SubtaskAtEndOfData, SubtaskRunning
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.bounded.batch_runner import BatchRunner
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Barrier, Batch, EndOfData, Open
from tests.spark.runner_parts import RunnerParts, end_log
from tests.support.waiting import wait_until

LONG = 60.0


class StagingSubtask(RunnerParts):
    """A subtask that stages its batch in a separate thread until ``go_on`` is set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.go_on, is_staging = Event(), Event()

        def stage() -> None:
            is_staging.set()
            if not self.go_on.wait(10):
                raise AssertionError("the driver's loop stands still while a batch is staged")

        self.while_staging = stage
        end_log(self.logs[SubtaskId("a/0")])
        self.batch: BatchRunner = self.batch_runner()
        self.batch.deploy(VertexPlan(0, ()))
        assert is_staging.wait(LONG)

    def report_types(self) -> list[type]:
        return [type(message) for message in self.posted]

    def record_types(self) -> list[type]:
        return [type(record) for _, record in self.log.records()]


@pytest.fixture
def subtask(tmp_path: Path) -> Iterator[StagingSubtask]:
    with ThreadPoolExecutor(1) as thread:
        made = StagingSubtask(open_storage(tmp_path), thread=thread)
        yield made
        made.go_on.set()


def test_r19_a_barrier_passes_while_a_batch_is_staged(subtask: StagingSubtask) -> None:
    subtask.batch.trigger(7)
    assert subtask.report_types() == [SubtaskRunning, BarrierAcknowledged]
    subtask.go_on.set()
    wait_until(lambda: SubtaskAtEndOfData in subtask.report_types(), "the end of data")
    assert subtask.record_types() == [Open, Barrier, Batch, EndOfData]


def test_a_batch_that_ends_during_a_barrier_is_reported_after_it(subtask: StagingSubtask) -> None:
    """The batch ends between the append of the barrier and its report."""
    put = subtask.log.barrier
    is_told = Event()

    class Telling(list[object]):
        def append(self, message: object) -> None:
            super().append(message)
            if isinstance(message, SubtaskAtEndOfData):
                is_told.set()

    def barrier(epoch: int, checkpoint: int) -> Snapshot:
        snapshot = put(epoch, checkpoint)
        subtask.go_on.set()
        is_told.wait(0.5)  # must time out: the batch has to wait for the barrier
        return snapshot

    subtask.log.barrier = barrier  # type: ignore[method-assign]
    subtask.posted = Telling(subtask.posted)
    subtask.batch.trigger(7)
    assert is_told.wait(LONG)
    assert subtask.report_types() == [SubtaskRunning, BarrierAcknowledged, SubtaskAtEndOfData]
    assert subtask.record_types() == [Open, Barrier, Batch, EndOfData]
