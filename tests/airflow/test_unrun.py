"""A JobMaster that waits for a subtask whose task Airflow no longer runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.errors import StorageUnreachableError
from airflow_provider_ckpt.triggers.abandoned_subtasks import AbandonedSubtasks
from airflow_provider_ckpt.triggers.siblings import tasks_of_subtasks
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
def test_a_task_that_airflow_runs_no_more_is_told_at_once(state: JobState, abandoned: str) -> None:
    task_states = FakeTaskStates(
        {"orders.subtask_1": abandoned, "orders.subtask_2": "running", "orders.plan": "failed"}
    )
    assert f"history/1 ({abandoned})" in str(AbandonedSubtasks(TASKS, task_states, lambda: state).check())


def test_the_failed_task_of_a_subtask_that_has_finished_is_needed_no_more(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_0": "failed", "orders.subtask_1": "up_for_retry"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    assert [watch.check() for _ in range(5)] == [None] * 5


@pytest.mark.parametrize("waits", ["up_for_retry", "queued", "scheduled", None, "running", "restarting"])
def test_one_that_it_runs_later_is_waited_for(state: JobState, waits: str | None) -> None:
    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_1": waits}), lambda: state)
    assert [watch.check() for _ in range(5)] == [None] * 5


def test_a_task_that_was_green_before_the_job_began_again_is_told_after_a_while(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_0": "success", "orders.subtask_2": "success"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    assert [watch.check(), watch.check()] == [None, None]
    assert "rows/0 have succeeded" in str(watch.check())


def test_a_success_that_the_journal_tells_a_moment_later_is_none_of_these(state: JobState) -> None:
    task_states = FakeTaskStates({"orders.subtask_2": "success"})
    watch = AbandonedSubtasks(TASKS, task_states, lambda: state)
    watch.check()
    task_states.states = {"orders.subtask_2": "running"}
    watch.check()
    task_states.states = {"orders.subtask_2": "success"}
    assert [watch.check(), watch.check()] == [None, None]


def test_a_storage_or_an_airflow_that_does_not_answer_ends_no_job(state: JobState) -> None:
    def unavailable() -> JobState:
        raise StorageUnreachableError(uri="s3://x", reason="down")

    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_2": "success"}), unavailable)
    assert [watch.check() for _ in range(5)] == [None] * 5
    assert AbandonedSubtasks(TASKS, FakeTaskStates({}), lambda: state).check() is None


def test_the_tasks_of_a_list_are_known_by_their_own_ids() -> None:
    assert tasks_of_subtasks(None, ["history", "rows/0"], ["g.history", "g.rows-0"]) == {
        "g.history": "history",
        "g.rows-0": "rows/0",
    }


def test_a_green_task_whose_subtask_has_one_beside_it_that_is_not_finished_is_told(
    journal: Callable[[str], Journal],
) -> None:
    orders = finished(rescaled(coordinated(prepared(journal("orders")))), "history/0")
    watch = AbandonedSubtasks(TASKS, FakeTaskStates({"orders.subtask_0": "success"}), lambda: orders.state)
    assert [watch.check(), watch.check()] == [None, None]
    assert "history/0 have succeeded" in str(watch.check())
    finished(orders, ADDED_SUBTASK)
    assert watch.check() is None
