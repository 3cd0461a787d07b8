"""Airflow's answers about the other tasks of a group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.state import TaskInstanceState

from airflow_provider_ckpt.triggers.group_task_states import Siblings

MINE = Siblings.of(SimpleNamespace(dag_id="shop", run_id="r1"), "orders")


def test_task_states_of_the_group_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[dict[str, Any]] = []

    def states(**given: Any) -> dict[str, Any]:
        queries.append(given)
        return {
            "r1": {"orders.plan": TaskInstanceState.SUCCESS, "orders.subtask_0": "running", "orders.coordinate": None}
        }

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
    assert MINE.states() == {"orders.plan": "success", "orders.subtask_0": "running", "orders.coordinate": None}
    assert queries == [{"dag_id": "shop", "task_group_id": "orders", "run_ids": ["r1"]}]


@pytest.mark.parametrize(
    "error",
    [
        AirflowException("no"),
        AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR)),
        ConnectionError("refused"),
        EOFError(),
    ],
)
def test_task_states_are_empty_if_airflow_does_not_answer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def states(**given: Any) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
    assert MINE.states() == {}


def test_a_deleted_dag_run_has_no_task_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **given: {}))
    assert MINE.states() == {}


def test_the_state_of_a_task_is_that_in_this_dag_run(monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[dict[str, Any]] = []

    def states(**given: Any) -> dict[str, Any]:
        queries.append(given)
        return {"r1": {"orders.coordinate": "deferred"}}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
    assert MINE.state("orders.coordinate") == "deferred"
    assert MINE.state("orders.plan") is None
    assert queries[0] == {"dag_id": "shop", "run_ids": ["r1"], "task_ids": ["orders.coordinate"]}
