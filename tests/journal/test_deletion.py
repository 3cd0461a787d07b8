"""Journal of a job that was deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import JobDeletedError, UnknownEventError
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.journal import Journal, list_jobs
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from tests.journal.samples import WORKER, folded, of_a_deletion, one_event_of_each

GOLDEN = Path(__file__).parents[1] / "golden" / "deletion-v1"


def finished() -> list[ev.Event]:
    return [*one_event_of_each(), ev.StatusChanged(JobStatus.FINISHED, 150.0)]


def test_golden_events_of_a_deletion_are_read_and_written() -> None:
    golden = json.loads((GOLDEN / "events.json").read_text())
    assert [decode(event) for event in golden] == of_a_deletion()
    assert [json.loads(encode(event)) for event in of_a_deletion()] == golden


def test_the_golden_state_of_a_deleted_job_is_read_and_written() -> None:
    golden = json.loads((GOLDEN / "state.json").read_text())
    state = folded(*finished(), *of_a_deletion())
    assert state_from_json(golden) == state
    assert json.dumps(state_to_json(state)) == json.dumps(golden)  # the order of the keys, too


def test_the_golden_journal_of_a_deleted_job_is_replayed() -> None:
    journal = Journal(open_storage(GOLDEN), "orders")
    assert journal.replay() == folded(*finished(), *of_a_deletion())
    assert journal.is_compact
    assert [state.status for state in list_jobs(open_storage(GOLDEN))] == [JobStatus.DELETED]


def test_a_begun_deletion_is_the_status_of_the_job_and_keeps_its_plan() -> None:
    claim, begun, deleted = of_a_deletion()
    before = folded(*finished(), claim)
    assert (before.status, before.deletion, before.worker) == (JobStatus.FINISHED, None, WORKER)
    before.refuse_deleted()
    state = folded(*finished(), claim, begun)
    assert (state.status, state.deletion, state.plan) == (JobStatus.DELETING, begun, before.plan)
    with pytest.raises(JobDeletedError, match=r"'orders' is DELETING since 1970-01-01 00:03:20Z, and was FINISHED"):
        state.refuse_deleted()
    deleted.apply(state)
    assert (state.status, state.has_finished) == (JobStatus.DELETED, True)
    with pytest.raises(JobDeletedError, match="is DELETED since"):
        state.refuse_deleted()


def test_a_claim_of_another_deletion_keeps_the_deletion() -> None:
    claim, begun, _ = of_a_deletion()
    state = folded(*finished(), claim, begun, ev.EpochClaimed(3, "t", Worker(), 300.0, releases_only=True))
    assert (state.status, state.deletion) == (JobStatus.DELETING, begun)


def test_a_deleted_job_keeps_its_progress_and_not_its_plan() -> None:
    state = folded(*finished(), *of_a_deletion())
    left = JobState("orders", epoch=2, attempt="manual~t1~delete", last_triggered=3, last_completed=2)
    left.completed_count, left.aborted_count, left.last_released = 1, 1, 2
    left.releases = {2: ev.CheckpointReleased(2, 122.0, {"lake": {"files": 3, "rows": 40}})}
    left.status, left.deletion = JobStatus.DELETED, ev.DeletionBegun(JobStatus.FINISHED, 200.5)
    assert state == left


def test_a_job_that_was_not_deleted_has_no_deletion() -> None:
    assert "deletion" not in state_to_json(folded(*finished()))
    assert not folded(*one_event_of_each()).has_finished
    assert not folded(*one_event_of_each(), ev.DeletionBegun(JobStatus.FAILED, 1.0)).has_finished


def test_a_deletion_with_an_unknown_status_is_refused() -> None:
    with pytest.raises(UnknownEventError, match="DeletionBegun"):
        decode({"type": "DeletionBegun", "was": "PAUSED", "at": 1.0, "attempts": []}, "9.1.0")
