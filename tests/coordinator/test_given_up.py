"""Runs that end because a subtask no longer gets a worker."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.protocol.effects import EndJob
from airflow_provider_ckpt.coordinator.protocol.messages import RunAbandoned
from airflow_provider_ckpt.journal.events import CheckpointAborted
from tests.coordinator.harness import CHAIN, Harness, events, only

ABANDONED = RunAbandoned("Airflow runs src/0 no more")


def test_the_run_ends_restarting_and_says_why() -> None:
    h = Harness(CHAIN, restart_attempts=2)
    h.fail("src/0")
    assert only(EndJob, h.effects) == []
    h.handle(ABANDONED)
    (ended,) = only(EndJob, h.effects)
    assert (ended.status, "Airflow runs src/0 no more" in str(ended.cause)) == ("RESTARTING", True)


def test_a_pending_checkpoint_is_aborted() -> None:
    h = Harness(CHAIN)
    h.at(1000.0)
    assert h.c.pending is not None
    h.handle(ABANDONED)
    assert len(events(CheckpointAborted, h.effects)) == 1


def test_how_the_run_ends_already_stands() -> None:
    h = Harness(CHAIN)
    h.fail("src/0", terminal=True)
    h.handle(ABANDONED)
    (ended,) = only(EndJob, h.effects)
    assert ended.status == "FAILED"
