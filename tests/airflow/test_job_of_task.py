"""Airflow's answers about a task, and the job that they identify.

Airflow's classes are real, its connection is fake.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import FoundJob, JobOfTask

TASK = JobOfTask("shop", "r1", "orders")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    given: dict[str, Any] = {"states": {}, "xcom": None}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"r1": given["states"]})
    monkeypatch.setattr(
        XCom, "get_one", lambda **arguments: given["xcom"] if arguments["task_id"] == "orders" else None
    )
    return given


@pytest.mark.parametrize("state", [None, "scheduled", "queued"])
def test_an_xcom_from_before_a_clear_is_ignored(answers: dict[str, Any], state: str | None) -> None:
    answers.update(states={"orders": state}, xcom="shop.orders.r1")
    assert TASK.find() == FoundJob(None, state)


@pytest.mark.parametrize("state", ["running", "up_for_retry", "success", "failed"])
def test_the_job_of_a_started_task_is_in_its_xcom(answers: dict[str, Any], state: str) -> None:
    answers.update(states={"orders": state}, xcom="shop.orders.r1~g1")
    assert TASK.find() == FoundJob("shop.orders.r1~g1", state)


def test_a_task_without_an_xcom_has_no_job(answers: dict[str, Any]) -> None:
    answers.update(states={"orders": "running"})
    assert TASK.find() == FoundJob(None, "running")


def test_a_task_that_does_not_exist_yet_has_no_state(answers: dict[str, Any]) -> None:
    assert TASK.find() == FoundJob(None, None)


def test_a_mapped_task_is_refused(answers: dict[str, Any]) -> None:
    answers.update(states={"orders_0": "running", "orders_1": "running"})
    with pytest.raises(InvalidTaskArgumentError, match="mapped"):
        TASK.find()


@pytest.mark.parametrize(
    ("state", "is_run", "is_over"),
    [("running", True, False), ("up_for_retry", True, False), ("success", False, False), ("failed", False, True)],
)
def test_the_tasks_state_says_whether_the_job_is_run(state: str, is_run: bool, is_over: bool) -> None:
    job = FoundJob("orders", state)
    assert (job.is_run, job.is_over) == (is_run, is_over)
