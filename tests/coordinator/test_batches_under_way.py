"""A periodic checkpoint waits a little for a micro-batch that is about to end."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.reports import BatchUnderWay
from airflow_provider_ckpt.journal.events import CheckpointTriggered
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from tests.coordinator.harness import V0, Harness, events, graph, vertex

SIDE_BY_SIDE = graph(
    vertex("fast", sources="live", sinks="one"), vertex("slow", bounded="history", sources="history", sinks="two")
)
FAST, SLOW = SubtaskId("fast/0"), SubtaskId("slow/0")


def batch(h: Harness, seconds: float | None, at: float, subtask: SubtaskId = V0) -> list[CheckpointTriggered]:
    h.now = at
    return events(CheckpointTriggered, h.handle(BatchUnderWay(**h.world(subtask), seconds=seconds)))


def triggered(h: Harness, at: float) -> bool:
    return bool(events(CheckpointTriggered, h.at(at)))


def test_it_is_triggered_when_the_batch_is_published() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.4, at=0.8)
    assert not triggered(h, 1.0)
    assert h.c.next_deadline(1.0) == 1.25
    assert len(batch(h, None, at=1.19)) == 1


def test_it_waits_a_quarter_of_the_interval_at_most() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.4, at=0.8)
    assert not triggered(h, 1.24)
    assert triggered(h, 1.25)


def test_and_a_second_at_most() -> None:
    h = Harness(interval=600.0)
    batch(h, 1.0, at=599.9)
    assert not triggered(h, 600.95)
    assert triggered(h, 601.0)


def test_it_does_not_wait_for_a_batch_that_will_take_longer() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.46, at=0.8)
    assert triggered(h, 1.0)


def test_nor_for_one_that_takes_twice_as_long_as_the_one_before() -> None:
    """Nobody knows what it does; and an attempt that is gone says nothing more of its batch."""
    h = Harness(interval=1.0)
    batch(h, 0.3, at=0.5)
    assert not triggered(h, 1.05)
    assert triggered(h, 1.1)


def test_a_batch_that_was_published_before_is_in_nobodys_way() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.4, at=0.8)
    batch(h, None, at=0.9)
    assert triggered(h, 1.0)


def test_the_interval_is_from_trigger_to_trigger() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.4, at=0.8)
    batch(h, None, at=1.2)
    h.ack()
    assert not triggered(h, 2.15)
    assert triggered(h, 2.2)


def test_only_those_about_to_end_are_waited_for() -> None:
    h = Harness(SIDE_BY_SIDE, interval=1.0)
    batch(h, 5.0, at=0.8, subtask=SLOW)
    batch(h, 0.4, at=0.8, subtask=FAST)
    assert not triggered(h, 1.1)
    assert len(batch(h, None, at=1.15, subtask=FAST)) == 1


def test_all_of_them_are() -> None:
    h = Harness(SIDE_BY_SIDE, interval=1.0)
    batch(h, 0.3, at=0.8, subtask=SLOW)
    batch(h, 0.4, at=0.8, subtask=FAST)
    assert batch(h, None, at=1.05, subtask=SLOW) == []
    assert len(batch(h, None, at=1.2, subtask=FAST)) == 1


def test_an_end_of_data_waits_for_no_batch() -> None:
    h = Harness(SIDE_BY_SIDE, interval=100.0)
    batch(h, 0.5, at=0.1, subtask=FAST)
    h.now = 0.2
    assert events(CheckpointTriggered, h.end_of_data(SLOW))


def test_a_savepoint_waits_for_no_batch() -> None:
    h = Harness(interval=1.0)
    batch(h, 0.4, at=0.9)
    h.now = 1.0
    assert events(CheckpointTriggered, h.request("stop"))


@pytest.mark.parametrize("attempt", [AttemptId(1, 1, "b"), AttemptId(2, 0, "a")])
def test_a_batch_of_another_attempt_is_nobodys(attempt: AttemptId) -> None:
    h = Harness(interval=1.0)
    h.now = 0.8
    h.handle(BatchUnderWay(1, V0, attempt, 0.4))
    assert triggered(h, 1.0)


def test_the_next_attempt_begins_without_the_batch_of_the_one_before() -> None:
    h = Harness(interval=10.0, restart_delay=0.0, restart_attempts=3)
    batch(h, 8.0, at=1.0)
    h.now = 2.0
    h.fail(V0)
    h.next_attempt(V0)
    h.running(V0)
    assert triggered(h, 10.0)
