"""Runs that end because a subtask no longer gets a worker."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.protocol.effects import EndJob
from airflow_provider_ckpt.coordinator.protocol.messages import RunAbandoned
from airflow_provider_ckpt.journal.events import CheckpointAborted
from tests.coordinator.harness import CHAIN, Harness, events, only

ABANDONED = RunAbandoned("Airflow runs src/0 no more")


def test_an_abandoned_run_ends_restarting_with_its_cause() -> None:
    h = Harness(CHAIN, restart_attempts=2)
    h.fail("src/0")
    assert only(EndJob, h.effects) == []
    h.handle(ABANDONED)
    (ended,) = only(EndJob, h.effects)
    assert (ended.status, "Airflow runs src/0 no more" in str(ended.cause)) == ("RESTARTING", True)


def test_an_abandoned_run_aborts_the_pending_checkpoint() -> None:
    h = Harness(CHAIN)
    h.at(1000.0)
    assert h.c.pending is not None
    h.handle(ABANDONED)
    assert len(events(CheckpointAborted, h.effects)) == 1


def test_an_abandoned_run_keeps_an_earlier_end_status() -> None:
    h = Harness(CHAIN)
    h.fail("src/0", terminal=True)
    h.handle(ABANDONED)
    (ended,) = only(EndJob, h.effects)
    assert ended.status == "FAILED"
