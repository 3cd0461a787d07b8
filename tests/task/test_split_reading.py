"""Reports of a task of a source with splits, shared by two threads (R14)."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    Report,
    SplitsCompleted,
    SplitsReturned,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskRunning,
)
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.publication import Publication
from airflow_provider_ckpt.task.split_reading import SplitReading

PLAN = VertexPlan(0, ())
FIRST = AttemptId(1, 0, "a")


class Subtask:
    def __init__(self, folder: Path, attempt: AttemptId = FIRST) -> None:
        self.told: list[Any] = []
        self.log = SubtaskLog(open_storage(folder), "log")
        self.log.load()
        self.log.open(attempt)
        task_id = TaskId(attempt.epoch, SubtaskId("parts/0"), attempt)
        self.reading = SplitReading("parts", Publication(self.log, task_id, post=self._tell, notify=lambda: None))

    def _tell(self, report: Report) -> None:
        about = getattr(report, "splits", getattr(report, "checkpoint", None))
        self.told.append((type(report), about))

    def begin(self) -> SplitReading:
        assert self.reading.deploy(PLAN)
        self.reading.begin()
        return self.reading


@pytest.fixture
def subtask(tmp_path: Path) -> Subtask:
    return Subtask(tmp_path)


def test_splits_are_read_in_order_and_the_last_one_leads_to_the_end(subtask: Subtask) -> None:
    subtask.reading.assign(["a"], is_last=False)
    assert subtask.reading.next() == (), "it does not run yet"
    reading = subtask.begin()
    for split, following in (("a", ()), ("b", ("c",)), ("c", ())):
        assert reading.next() == (split,)
        reading.end_if_exhausted()
        reading.complete(Batch(reading.next_batch, {}, splits=(split,)))
        if split == "a":
            assert reading.next() == ()
            reading.end_if_exhausted()
            reading.assign(["b", "c"], is_last=True)
        else:
            assert reading.next() == following
    reading.end_if_exhausted()
    reading.finish()
    assert subtask.told == [
        (SubtaskRunning, None),
        (SplitsCompleted, ("a",)),
        (SplitsCompleted, ("b",)),
        (SplitsCompleted, ("c",)),
        (SubtaskAtEndOfData, None),
        (SubtaskDone, None),
    ]
    assert (subtask.log.state.end_of_data, subtask.log.state.closed) == ("finish", True)


def test_the_next_attempt_says_first_what_the_one_before_has_published(subtask: Subtask, tmp_path: Path) -> None:
    subtask.begin().complete(Batch(0, {}, splits=("a",)))
    following = Subtask(tmp_path, AttemptId(1, 1, "b"))
    following.begin()
    assert following.told == [(SplitsCompleted, ("a",)), (SubtaskRunning, None)]


def test_r14_the_next_attempt_says_all_that_an_entry_of_several_completes(subtask: Subtask, tmp_path: Path) -> None:
    subtask.begin().complete(Batch(0, {}, splits=("a", "b", "c")))
    following = Subtask(tmp_path, AttemptId(1, 1, "b"))
    following.begin()
    assert following.told == [(SplitsCompleted, ("a", "b", "c")), (SubtaskRunning, None)]


def test_r14_a_split_is_told_before_a_barrier_behind_it_is_acknowledged(subtask: Subtask) -> None:
    """The barrier is triggered between the split's entry and its report."""
    reading = subtask.begin()
    publish, answered = reading.publication.publish, Event()

    def trigger() -> None:
        reading.publication.trigger(3)
        answered.set()

    driver = Thread(target=trigger)

    def publish_and_wait(batch: Batch) -> int:
        position = publish(batch)
        driver.start()
        answered.wait(0.5)  # this times out, because the barrier has to wait for the split's report
        return position

    reading.publication.publish = publish_and_wait  # type: ignore[method-assign,assignment]
    reading.complete(Batch(0, {}, splits=("a",)))
    driver.join(60)
    assert subtask.told[1:] == [(SplitsCompleted, ("a",)), (BarrierAcknowledged, 3)]


def test_r14_several_are_completed_by_one_entry_and_told_at_once(subtask: Subtask) -> None:
    subtask.reading.assign(["a", "b", "c"], is_last=True)
    reading = subtask.begin()
    assert reading.next(2) == ("a", "b")
    reading.complete(Batch(0, {}, splits=("a", "b")), together=4)
    assert subtask.told[1:] == [(SplitsCompleted, ("a", "b"))]
    assert reading.next(4) == ("c",)
    last = subtask.log.state.last_batch
    assert last is not None
    assert last.splits == ("a", "b")


def test_what_was_handed_out_for_more_is_given_back_and_may_come_once_more(subtask: Subtask) -> None:
    names = [f"s{number}" for number in range(12)]
    subtask.reading.assign(names, is_last=False)
    reading = subtask.begin()
    reading.return_surplus(2)
    assert subtask.told[1:] == [(SplitsReturned, tuple(names[8:]))]
    assert reading.next(64) == tuple(names[:8])
    reading.assign(names[6:10], is_last=True)
    assert reading.next(64) == tuple(names[:10])


def test_that_fewer_are_read_is_said_though_nothing_is_to_be_given_back(subtask: Subtask) -> None:
    """Otherwise the JobMaster would keep assigning more splits than the task reads."""
    reading = subtask.begin()
    reading.return_surplus(1)
    assert subtask.told[1:] == [(SplitsReturned, ())]
