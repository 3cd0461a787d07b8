"""A JobMaster that waits for a subtask whose task Airflow no longer runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.errors import StorageUnreachableError
from airflow_provider_ckpt.triggers.abandoned_subtasks import AbandonedSubtasks
from airflow_provider_ckpt.triggers.group_task_states import tasks_of_subtasks
from tests.airflow.group_journal import (
    ADDED_SUBTASK,
    SUBTASKS,
    FakeTaskStates,
    coordinated,
    finished,
    prepared,
    rescaled,
)

TASKS = tasks_of_subtasks("orders.subtask", SUBTASKS, ())


@pytest.fixture
def state(journal: Callable[[str], Journal]) -> JobState:
    return finished(coordinated(prepared(journal("orders"))), "history/0").state


@pytest.mark.parametrize("abandoned", ["failed", "upstream_failed", "skipped", "removed"])
def test_an_ended_task_of_an_unfinished_subtask_is_reported_at_once(state: JobState, abandoned: str) -> None:
    task_states = FakeTaskStates(
        {"orders.subtask_1": abandoned, "orders.subtask_2": "running", "orders.plan": "failed"}
    )
    assert f"history/1 ({abandoned})" in str(AbandonedSubtasks(TASKS, task_states, lambda: state).check())


def test_the_failed_task_of_a_finished_subtask_is_ignored(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_0": "failed", "orders.subtask_1": "up_for_retry"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    assert [watch.check() for _ in range(5)] == [None] * 5


@pytest.mark.parametrize("waits", ["up_for_retry", "queued", "scheduled", None, "running", "restarting"])
def test_a_task_that_airflow_will_run_is_not_reported(state: JobState, waits: str | None) -> None:
    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_1": waits}), lambda: state)
    assert [watch.check() for _ in range(5)] == [None] * 5


def test_a_successful_task_of_an_unfinished_subtask_is_reported_later(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_0": "success", "orders.subtask_2": "success"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    assert [watch.check(), watch.check()] == [None, None]
    assert "rows/0 have succeeded" in str(watch.check())


def test_a_short_success_is_not_reported(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_2": "success"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    watch.check()
    task_states.states = {"orders.subtask_2": "running"}
    watch.check()
    task_states.states = {"orders.subtask_2": "success"}
    assert [watch.check(), watch.check()] == [None, None]


def test_a_storage_or_airflow_error_is_not_reported(state: JobState) -> None:
    def unavailable() -> JobState:
        raise StorageUnreachableError(uri="s3://x", reason="down")

    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_2": "success"}), unavailable)
    assert [watch.check() for _ in range(5)] == [None] * 5
    assert AbandonedSubtasks(TASKS, FakeTaskStates({}), lambda: state).check() is None


def test_listed_subtasks_have_their_own_task_ids() -> None:
    assert tasks_of_subtasks(None, ["history", "rows/0"], ["g.history", "g.rows-0"]) == {
        "g.history": "history",
        "g.rows-0": "rows/0",
    }


def test_a_successful_task_with_an_unfinished_added_subtask_is_reported(
    journal: Callable[[str], Journal],
) -> None:
    orders = finished(rescaled(coordinated(prepared(journal("orders")))), "history/0")
    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_0": "success"}), lambda: orders.state)
    assert [watch.check(), watch.check()] == [None, None]
    assert "history/0 have succeeded" in str(watch.check())
    finished(orders, ADDED_SUBTASK)
    assert watch.check() is None
