from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.journal.events import CheckpointCompleted, DeletionBegun, PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import OperatorState
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.triggers.condition import CheckpointCondition
from tests.support.definitions import STREAMING


def state(status: str | None, completed: int = 0, released: int | None = None, **fields: Any) -> JobState:
    return JobState(
        "orders",
        epoch=1,
        status=None if status is None else JobStatus(status),
        last_completed=completed,
        last_released=completed if released is None else released,
        **fields,
    )


def test_the_message_describes_a_prepared_job() -> None:
    message = CheckpointCondition("orders", 1).judge(state(None)).message
    assert message == (
        "Job orders is not RUNNING yet: checkpoint none completed, none released. Waiting for checkpoint 1 (released)"
    )


def outcome(job: JobState | None, checkpoint: Any = "final", **options: Any) -> str:
    return CheckpointCondition("orders", checkpoint, **options).judge(job).outcome


@pytest.mark.parametrize(
    ("job", "checkpoint", "expected"),
    [
        (None, "final", "wait"),
        (state(None), 1, "wait"),
        (state("RUNNING", 4), 5, "wait"),
        (state("RUNNING", 5), 5, "reached"),
        (state("RUNNING", 6), 5, "reached"),
        (state("RUNNING", 5, 4), 5, "wait"),
        (state("RUNNING", 9), "final", "wait"),
        (state("RESTARTING", 9), "final", "wait"),
        (state("FINISHED", 9), "final", "reached"),
        (state("FINISHED", 9, 8), "final", "wait"),
        (state("FINISHED", 9, 8), 9, "wait"),
        (state("FINISHED", 9), 12, "failed"),
        (state("STOPPED", 9), "final", "wait"),
        (state("STOPPED", 9), 8, "reached"),
        (state("STOPPED", 9), 12, "wait"),
        (state("STOPPED", 9, 8), 12, "wait"),
        (state("STOPPED", 9, 8), 9, "wait"),
        (state("FAILED", 9), "final", "failed"),
        (state("FAILED", 9, 8), 9, "failed"),
        (state("RUNNING", 9, damage=["entry 3 is torn"]), "final", "failed"),
    ],
)
def test_a_wait_ends_when_its_checkpoint_is_reached_or_impossible(
    job: JobState | None, checkpoint: Any, expected: str
) -> None:
    assert outcome(job, checkpoint) == expected


@pytest.mark.parametrize("status", ["STOPPED", "FAILED", "FINISHED"])
def test_wait_for_restart_waits_after_an_early_end(status: str) -> None:
    assert outcome(state(status, 3), 4, wait_for_restart=True) == "wait"


def test_a_completed_checkpoint_is_enough_with_released_false() -> None:
    assert outcome(state("RUNNING", 5, 3), 5, released=False) == "reached"
    assert outcome(state("FINISHED", 5, 3), released=False) == "reached"


def test_a_failure_names_the_cause_and_the_missing_checkpoint() -> None:
    verdict = CheckpointCondition("orders", 12).judge(state("FAILED", 9, cause="no such column"))
    assert verdict.message == (
        "Job orders is FAILED (no such column): checkpoint 9 completed, 9 released. "
        "It will not reach checkpoint 12 (released)"
    )


def test_a_finished_job_never_reaches_an_incomplete_checkpoint() -> None:
    assert outcome(state("FINISHED", 9, 8), 12) == "failed"
    assert outcome(state("FINISHED", 9, 8), 9) == "wait", "a driver may be about to release it"


def done(number: int, triggered_at: float, **operators: OperatorState) -> CheckpointCompleted:
    return CheckpointCompleted(number, triggered_at, triggered_at + 1, "checkpoint", {}, operators)


def with_checkpoints(job: JobState, *checkpoints: CheckpointCompleted) -> JobState:
    job.checkpoints = {checkpoint.checkpoint: checkpoint for checkpoint in checkpoints}
    return job


def test_since_needs_a_released_checkpoint_triggered_at_or_after_it() -> None:
    job = with_checkpoints(state("RUNNING", 2, 1), done(1, 100.0), done(2, 200.0))
    assert outcome(job, None, since=100.0) == "reached"
    assert outcome(job, None, since=150.0) == "wait", "2 is not released"
    assert outcome(job, None, since=150.0, released=False) == "reached"
    assert outcome(job, None, since=201.0, released=False) == "wait"


def test_a_job_that_ended_before_since_fails_the_wait() -> None:
    job = with_checkpoints(state("FINISHED", 1), done(1, 100.0))
    assert outcome(job, "final", since=150.0) == "failed"
    assert outcome(job, "final", since=100.0) == "reached"
    verdict = CheckpointCondition("orders", "final", since=150.0).judge(job)
    assert "the final checkpoint and a checkpoint triggered at 1970-01-01 00:02:30Z or later" in verdict.message


GRAPH = JobGraph(
    (JobVertex("large", ("history", "live", "large"), ("history", "live"), ("history",), ("lake",), bounded=False),), ()
)


def planned(job: JobState) -> JobState:
    job.plan = PlanRecorded(GRAPH, {}, 1.0, STREAMING)
    return job


def test_an_operator_is_finished_when_its_end_is_released() -> None:
    job = planned(with_checkpoints(state("RUNNING", 2, 1), done(1, 1.0), done(2, 2.0, history="finished")))
    assert outcome(job, None, finished="history") == "wait"
    job.ended = {"large": {"history": 7}}
    assert outcome(job, None, finished="history") == "wait", "its last rows are not released"
    assert outcome(job, None, finished="history", released=False) == "reached"
    job.last_released = 2
    assert outcome(job, None, finished="history") == "reached"


def test_an_operator_that_runs_again_after_a_restore_is_not_finished() -> None:
    job = planned(with_checkpoints(state("RUNNING", 2), done(2, 2.0, history="finished")))
    job.ended = {}
    assert outcome(job, None, finished="history") == "wait"


def test_all_operators_of_a_finished_job_are_finished() -> None:
    job = planned(state("FINISHED", 2))
    job.finished = {SubtaskId("large/0")}
    assert outcome(job, None, finished="lake") == "reached"


def test_the_error_for_an_unknown_operator_names_the_existing_ones() -> None:
    verdict = CheckpointCondition("orders", None, finished="histroy").judge(planned(state("RUNNING", 2)))
    assert verdict.outcome == "failed"
    assert "no operator 'histroy'. Did you mean 'history'? It has: history, lake, large, live" in verdict.message
    assert outcome(state("CREATED"), None, finished="histroy") == "wait", "its plan is not known yet"
    assert outcome(planned(state("RUNNING", 2)), None, finished="histroy", wait_for_restart=True) == "wait"


NOON = 1_767_960_000.0


def timed(status: str, watermark: int | None, completed: int = 2, released: int | None = None) -> JobState:
    """Return a state with two checkpoints.

    ``watermark``: of checkpoint 2, in seconds after noon; a minute less for 1.
    """
    job = state(status, completed, released)
    for number, come in ((1, None if watermark is None else watermark - 60), (2, watermark)):
        mark = None if come is None else round((NOON + come) * 1000)
        covered = {SubtaskId("large/0"): Snapshot(1, 1, watermark=mark)}
        job.checkpoints[number] = CheckpointCompleted(number, 1.0, 2.0, "checkpoint", covered, {})
    vertices = {"large": VertexDefinition("append", stateful=True, event_time=True)}
    job.plan = PlanRecorded(GRAPH, {}, 1.0, definition=JobDefinition("streaming", {}, vertices, {}))
    return job


@pytest.mark.parametrize(
    ("job", "options", "expected"),
    [
        (timed("RUNNING", 0), {}, "reached"),
        (timed("RUNNING", -1), {}, "wait"),
        (timed("RUNNING", None), {}, "wait"),
        (timed("RUNNING", 0, released=1), {}, "wait"),
        (timed("RUNNING", 0, released=1), {"released": False}, "reached"),
        (timed("RUNNING", 60, released=1), {}, "reached"),
        (timed("STOPPED", 0), {}, "reached"),
        (timed("STOPPED", -1), {}, "wait"),
        (timed("FAILED", -1), {}, "failed"),
        (timed("FINISHED", -1), {}, "reached"),
        (timed("FINISHED", -1, released=1), {}, "wait"),
    ],
)
def test_a_watermark_is_reached_in_a_released_checkpoint(job: JobState, options: dict[str, Any], expected: str) -> None:
    assert outcome(job, None, watermark=NOON, **options) == expected


def test_a_checkpoint_before_a_restore_does_not_count_for_event_time() -> None:
    job = timed("RUNNING", 0)
    job.restored = 3
    assert outcome(job, None, watermark=NOON) == "wait"


def test_a_wait_for_event_time_shows_the_current_watermark() -> None:
    verdict = CheckpointCondition("orders", None, watermark=NOON).judge(timed("RUNNING", -1))
    assert verdict.message == (
        "Job orders is RUNNING: checkpoint 2 completed, 2 released, watermark 2026-01-09 11:59:59Z. "
        "Waiting for the watermark 2026-01-09 12:00:00Z (released)"
    )


def test_a_job_without_event_time_fails_a_wait_for_a_watermark() -> None:
    job = planned(state("RUNNING", 2))
    verdict = CheckpointCondition("orders", None, watermark=NOON).judge(job)
    assert (verdict.outcome, "no source has one (@job.source)" in verdict.message) == ("failed", True)
    assert outcome(job, None, watermark=NOON, wait_for_restart=True) == "wait"
    assert outcome(state("CREATED"), None, watermark=NOON) == "wait", "its plan is not known yet"


def deleted(was: str, completed: int = 9, status: str = "DELETED", released: int | None = None) -> JobState:
    return state(status, completed, released, deletion=DeletionBegun(JobStatus(was), 5.0))


@pytest.mark.parametrize("status", ["DELETING", "DELETED"])
@pytest.mark.parametrize(
    ("was", "checkpoint", "expected"),
    [
        ("FINISHED", "final", "reached"),
        ("FINISHED", 9, "reached"),
        ("FINISHED", 12, "failed"),
        ("STOPPED", 9, "reached"),
        ("STOPPED", "final", "failed"),
        ("FAILED", 12, "failed"),
    ],
)
def test_a_deleted_job_is_judged_by_its_last_status_and_checkpoint(
    status: str, was: str, checkpoint: Any, expected: str
) -> None:
    assert outcome(deleted(was, status=status), checkpoint) == expected


def test_wait_for_restart_does_not_wait_for_a_deleted_job() -> None:
    verdict = CheckpointCondition("orders", 12, wait_for_restart=True).judge(deleted("STOPPED"))
    assert verdict.outcome == "failed"
    assert "Job orders is DELETED" in verdict.message


def test_an_unreleased_checkpoint_of_a_deleted_job_is_lost() -> None:
    assert outcome(deleted("FAILED", released=8), 9) == "failed"
    assert outcome(deleted("FAILED", released=8), 9, released=False) == "reached"


def test_only_the_end_of_a_deleted_job_is_known() -> None:
    assert outcome(deleted("FINISHED"), None, watermark=100.0) == "reached"
    assert outcome(deleted("STOPPED"), None, watermark=100.0) == "failed"
    assert outcome(deleted("FINISHED"), None, finished="history") == "failed"
    assert outcome(deleted("FINISHED"), None, since=0.0) == "failed"
