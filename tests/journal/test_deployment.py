"""Journal of a job whose subtasks run in workers of their own (W4, W20)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.worker import Worker
from tests.journal.samples import folded, of_code, of_deployment

GOLDEN = Path(__file__).parents[1] / "golden" / "deployment-v1.json"
CODE = GOLDEN.with_name("job-code-v1.json")


def deployed(*more: ev.Event) -> JobState:
    return folded(*of_deployment(), *more)


def test_golden_events_of_a_deployment_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_deployment()
    assert [json.loads(encode(event)) for event in of_deployment()] == golden


def test_w28_the_golden_plan_has_the_code_that_workers_need() -> None:
    golden = json.loads(CODE.read_text())
    assert [decode(event) for event in golden] == of_code()
    assert [json.loads(encode(event)) for event in of_code()] == golden
    state = deployed(*of_code())
    assert state_from_json(state_to_json(state)) == state


def test_a_snapshot_keeps_the_deployment() -> None:
    state = deployed()
    assert (state.deployment, state.taken) == (1, {"r-3"})
    snapshot = decode(json.loads(encode(ev.StateSnapshot(state, 1.0))))
    again = JobState("orders")
    snapshot.apply(again)
    assert again == state_from_json(state_to_json(state)) == state


def test_w13_a_split_that_was_assigned_twice_belongs_to_the_last_subtask() -> None:
    """The first subtask had returned the split.

    If the journal named both subtasks, the split would be returned twice and read twice.
    """
    assert deployed().splits_assigned == {
        "history": {SubtaskId("history/0"): ((0, 2), (3, 4)), SubtaskId("history/1"): ((2, 3),)}
    }


def test_w4_the_next_jobmaster_of_the_deployment_keeps_assigned_splits() -> None:
    state = deployed(ev.EpochClaimed(3, "t-3", Worker("host"), 140.0, deployment=1))
    assert state.deployment == 1
    assert state.splits_assigned["history"]


def test_running_time_counts_from_the_first_jobmaster_of_a_deployment() -> None:
    runs, restarts = ev.StatusChanged(JobStatus.RUNNING, 130.0), ev.StatusChanged(JobStatus.RESTARTING, 150.0)
    claim = ev.EpochClaimed(3, "t-3", Worker("host"), 140.0, deployment=1)
    again = ev.StatusChanged(JobStatus.RUNNING, 141.0)
    assert deployed(runs, claim, again).running_since == 130.0
    assert deployed(runs, claim, again, restarts).running_since is None
    other = ev.EpochClaimed(3, "t-3", Worker("host"), 140.0)
    assert deployed(runs, other, again).running_since is None


@pytest.mark.parametrize("releases_only", [False, True])
def test_w20_any_other_claim_ends_the_deployment(releases_only: bool) -> None:
    state = deployed(ev.EpochClaimed(3, "t-3", Worker("host"), 140.0, releases_only))
    assert (state.deployment, state.splits_assigned, state.taken) == (0, {}, set())


@pytest.mark.parametrize("status", [status for status in JobStatus if not status.is_alive])
def test_w20_the_end_of_the_run_ends_the_deployment(status: JobStatus) -> None:
    assert deployed(ev.StatusChanged(status, 140.0)).deployment == 0


def test_w20_the_next_jobmaster_takes_requests_that_were_only_accepted() -> None:
    claim = ev.EpochClaimed(3, "t-3", Worker("host"), 140.0, deployment=1)
    assert "r-3" in deployed().answered
    assert "r-3" not in deployed(claim).answered
    refused = ev.RequestAnswered("r-3", "stop", RequestOutcome.refused("no"), 135.0)
    assert "r-3" in deployed(refused, claim).answered
    assert not deployed(refused).taken
