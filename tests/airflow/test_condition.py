from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.triggers.condition import CheckpointCondition


def state(status: str | None, completed: int = 0, released: int | None = None, **fields: Any) -> JobState:
    return JobState(
        "orders",
        epoch=1,
        status=status,
        last_completed=completed,
        last_released=completed if released is None else released,
        **fields,
    )


def outcome(found: JobState | None, checkpoint: Any = "final", **options: bool) -> str:
    return CheckpointCondition("orders", checkpoint, **options).judge(found).outcome


@pytest.mark.parametrize(
    ("found", "checkpoint", "expected"),
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
        (state("STOPPED", 9), "final", "failed"),
        (state("STOPPED", 9), 8, "reached"),
        (state("STOPPED", 9), 12, "failed"),
        (state("STOPPED", 9, 8), 12, "failed"),
        (state("STOPPED", 9, 8), 9, "wait"),
        (state("FAILED", 9), "final", "failed"),
        (state("FAILED", 9, 8), 9, "wait"),
        (state("RUNNING", 9, damage=["entry 3 is torn"]), "final", "failed"),
    ],
)
def test_a_wait_ends_when_what_is_waited_for_is_there_or_is_not_going_to_come(
    found: JobState | None, checkpoint: Any, expected: str
) -> None:
    assert outcome(found, checkpoint) == expected


@pytest.mark.parametrize("status", ["STOPPED", "FAILED", "FINISHED"])
def test_waiting_for_a_restart_outlives_an_end_that_came_too_early(status: str) -> None:
    assert outcome(state(status, 3), 4, wait_for_restart=True) == "wait"


def test_completed_is_enough_if_the_release_is_not_waited_for() -> None:
    assert outcome(state("RUNNING", 5, 3), 5, released=False) == "reached"
    assert outcome(state("FINISHED", 5, 3), released=False) == "reached"


def test_a_failure_names_the_cause_and_what_was_missing() -> None:
    verdict = CheckpointCondition("orders", 12).judge(state("FAILED", 9, cause="no such column"))
    assert verdict.message == (
        "Job orders is FAILED: checkpoint 9 completed, 9 released (no such column). "
        "It is not going to reach checkpoint 12 (released)"
    )
