"""Owner of the deployment in which a job runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.operators.group_run import GroupRun, GroupStatus
from tests.airflow.group_journal import (
    ADDED_SUBTASK,
    JOB_ID,
    SUBTASKS,
    coordinated,
    ended,
    finished,
    prepared,
    rescaled,
)

MINE = GroupRun.of("shop", "orders", "r1")
OTHERS = [GroupRun.of("shop", "orders", run) for run in ("r2", "r1~", "r1:x", "r")]


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return journal("orders")


def test_a_deployment_belongs_to_the_dag_run_that_prepared_it(orders: Journal) -> None:
    assert MINE.name == JOB_ID
    prepared(orders)
    coordinated(orders, "a `ckpt master` by hand")
    assert MINE.owns(orders.state)
    assert not [group_run for group_run in OTHERS if group_run.owns(orders.state)]
    assert MINE.status_for(orders.state) is GroupStatus.RUNS


def test_the_dag_run_owns_its_deployment_after_the_end_and_a_compaction(orders: Journal) -> None:
    coordinated(prepared(orders), "by hand")
    ended(orders, "RESTARTING")
    assert MINE.owns(state_from_json(state_to_json(orders.state)))
    assert MINE.status_for(orders.state) is GroupStatus.AWAITED


def test_a_claim_by_another_driver_takes_the_job_from_the_dag_run(orders: Journal) -> None:
    ended(coordinated(prepared(orders)), "RESTARTING")
    orders.claim("ckpt-run", Worker(), 6.0)
    assert MINE.status_for(orders.state) is GroupStatus.TAKEN


def test_the_dag_run_owns_the_job_while_its_planner_prepares(orders: Journal) -> None:
    ended(coordinated(prepared(orders), "by hand"), "RESTARTING")
    orders.claim(MINE.attempt("coordinate", 2), Worker(), 6.0)
    assert MINE.status_for(orders.state) is GroupStatus.AWAITED


def test_a_manual_release_does_not_take_the_job_over(orders: Journal) -> None:
    ended(coordinated(prepared(orders)), "RESTARTING")
    orders.claim(f"{orders.state.attempt}~release", Worker(), 6.0, releases_only=True)
    assert MINE.status_for(orders.state) is GroupStatus.AWAITED


@pytest.mark.parametrize(
    ("status", "standing"),
    [("FINISHED", GroupStatus.DONE), ("STOPPED", GroupStatus.STOPPED), ("FAILED", GroupStatus.FAILED)],
)
def test_the_group_status_follows_the_status_of_the_ended_job(
    orders: Journal, status: str, standing: GroupStatus
) -> None:
    ended(coordinated(prepared(orders)), status)
    assert MINE.status_for(orders.state) is standing


def test_a_finished_subtask_is_done_only_for_its_own_task(orders: Journal) -> None:
    finished(coordinated(prepared(orders)), "history/0")
    state = orders.state
    assert MINE.status_for(state, state.subtasks_of_process("history/0")) is GroupStatus.DONE
    assert MINE.status_for(state, state.subtasks_of_process("history")) is GroupStatus.RUNS
    assert MINE.status_for(state) is GroupStatus.RUNS
    finished(orders, "history/1")
    assert MINE.status_for(orders.state, orders.state.subtasks_of_process("history")) is GroupStatus.DONE


def test_a_name_selects_a_subtask_or_all_subtasks_of_a_vertex(orders: Journal) -> None:
    state = prepared(orders).state
    assert [name for selector in ("history", "rows/0") for name in state.subtasks_of_process(selector)] == SUBTASKS
    assert not state.subtasks_of_process("histor")


def test_a_new_job_does_not_belong_to_the_dag_run(orders: Journal) -> None:
    assert MINE.status_for(orders.state) is GroupStatus.TAKEN


def test_a_task_is_done_when_its_added_subtasks_are_finished_too(orders: Journal) -> None:
    state = finished(rescaled(coordinated(prepared(orders))), "history/0").state
    assert state.subtasks_of_process("history/0") == ("history/0", ADDED_SUBTASK)
    assert MINE.status_for(state, state.subtasks_of_process("history/0")) is GroupStatus.RUNS
    finished(orders, ADDED_SUBTASK)
    assert MINE.status_for(orders.state, orders.state.subtasks_of_process("history/0")) is GroupStatus.DONE
