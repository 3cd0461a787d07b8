"""Checkpoints that start early, right after a micro-batch of a live source instead of in the middle of the next one."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import BatchPublished
from airflow_provider_ckpt.journal.events import CheckpointAborted, CheckpointTriggered
from airflow_provider_ckpt.model.ids import AttemptId
from tests.coordinator.harness import CHAIN, V0, Harness, events


def published(h: Harness, at: float, subtask: str = "v/0") -> list[CheckpointTriggered]:
    h.now = at
    return events(CheckpointTriggered, h.handle(BatchPublished(**h.world(subtask))))


def triggered(h: Harness, at: float) -> bool:
    return bool(events(CheckpointTriggered, h.at(at)))


def test_a_checkpoint_follows_a_batch_in_the_second_half_of_its_interval() -> None:
    h = Harness(interval=1.0)
    assert published(h, 0.49) == []
    assert h.c.next_deadline(0.49) == 1.0
    assert len(published(h, 0.5)) == 1


def test_without_a_late_batch_a_checkpoint_starts_when_due() -> None:
    h = Harness(interval=1.0)
    assert published(h, 0.4) == []
    assert not triggered(h, 0.99)
    assert triggered(h, 1.0)


def test_a_checkpoint_starts_at_most_one_second_early() -> None:
    h = Harness(interval=600.0)
    assert published(h, 598.9) == []
    assert len(published(h, 599.0)) == 1


def test_the_next_interval_counts_from_an_early_checkpoint() -> None:
    h = Harness(interval=1.0)
    assert len(published(h, 0.8)) == 1
    h.ack()
    assert published(h, 1.25) == []
    assert len(published(h, 1.31)) == 1


def test_a_covered_batch_does_not_hasten_the_next_checkpoint() -> None:
    h = Harness(interval=1.0, min_pause=0.0)
    published(h, 0.9)
    h.ack()
    assert not triggered(h, 1.85)
    assert triggered(h, 1.9)


def test_a_batch_before_a_late_barrier_does_not_hasten_a_checkpoint() -> None:
    h = Harness(interval=1.0)
    assert triggered(h, 1.0)
    published(h, 1.6)
    h.now = 1.65
    assert events(CheckpointTriggered, h.ack()) == []
    assert triggered(h, 2.0)


def test_a_batch_that_only_an_aborted_checkpoint_covered_brings_the_next_one_forward() -> None:
    h = Harness(CHAIN, interval=1.0, tolerable_failed=1)
    assert triggered(h, 1.0)
    published(h, 1.6, "mid/0")
    h.ack("mid/0")
    effects = h.decline("IO_EXCEPTION", "src/0")
    assert events(CheckpointAborted, effects)
    assert len(events(CheckpointTriggered, effects)) == 1


def test_an_early_checkpoint_keeps_the_minimum_pause() -> None:
    h = Harness(interval=1.0, min_pause=0.9)
    published(h, 0.8)
    h.ack()
    assert published(h, 1.6) == []
    assert not triggered(h, 1.69)
    assert triggered(h, 1.701)


def test_a_batch_starts_no_checkpoint_while_another_is_pending() -> None:
    h = Harness(interval=1.0)
    assert len(published(h, 0.8)) == 1
    assert published(h, 1.7) == []


@pytest.mark.parametrize("attempt", [AttemptId(1, 1, "b"), AttemptId(2, 0, "a")])
def test_a_batch_of_another_attempt_hastens_no_checkpoint(attempt: AttemptId) -> None:
    h = Harness(interval=1.0)
    h.now = 0.8
    assert events(CheckpointTriggered, h.handle(BatchPublished(1, V0, attempt))) == []
