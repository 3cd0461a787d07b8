"""Rows of the table of a group in docs/airflow.md that test_group_tasks.py and test_master_task.py do not cover.

The rows cover a retry, a clear and a new run. Only spark-submit is fake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt import CheckpointedSparkJobGroup
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.operators.plan_task import PlanTaskOperator
from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.group_task_states import Siblings
from tests.airflow.group_journal import JOB_ID, FakeTaskStates, coordinated, ended, prepared
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status

Journals = Callable[[str], Journal]


def planned(spark_submit: FakeSparkSubmit, operator: PlanTaskOperator, run: Any) -> Any:
    """Submit a planner that fails, and return the options it got."""
    spark_submit.play(status("failed", "executor lost"), exit=1)
    with pytest.raises(AirflowException, match="executor lost"):
        operator.execute(run)
    (call,) = spark_submit.calls
    assert call.argv[-1] == "--plan"
    return call.options


def test_a_new_dag_run_takes_the_job_over_from_another_run(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, journal: Journals
) -> None:
    coordinated(prepared(journal("feed"), "shop.orders.r0~t1.plan"))
    options = planned(
        spark_submit, PlanTaskOperator(task_id="plan", job_id="feed", **group_arguments), context(StateStore())
    )
    assert (options["job_id"], options["attempt"]) == ("feed", f"{JOB_ID}~t1.plan")


def test_a_new_dag_run_without_a_job_id_has_a_new_job(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, journal: Journals
) -> None:
    coordinated(prepared(journal(JOB_ID)))
    run = context(StateStore(), run_id="r2")
    assert planned(spark_submit, PlanTaskOperator(task_id="plan", **group_arguments), run)["job_id"] == "shop.orders.r2"


def test_a_plan_retry_after_a_failed_run_ignores_restore(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, journal: Journals
) -> None:
    """The retry ignores the checkpoint from which the first try restored."""
    orders, store = prepared(journal(JOB_ID)), StateStore()
    operator = PlanTaskOperator(task_id="plan", restore="/x/chk-4", **group_arguments)
    operator.execute(context(store))
    ended(coordinated(orders), "RESTARTING")
    options = planned(spark_submit, operator, context(store, try_number=2))
    assert (options["restore"], options["attempt"]) == ("latest", f"{JOB_ID}~t2.plan")


def test_clearing_a_subtask_starts_only_another_attempt_of_it(
    group_arguments: dict[str, Any],
    spark_submit: FakeSparkSubmit,
    journal: Journals,
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Siblings, "states", FakeTaskStates({"orders.coordinate": "running"}))
    orders, store = coordinated(prepared(journal(JOB_ID))), StateStore()
    operator = SubtaskTaskOperator(task_id="s", subtask="history/0", coordinate="orders.coordinate", **group_arguments)
    done = status("finished", "the subtasks of this worker have finished")
    for number, max_tries in ((1, 2), (2, 3)):  # the second run is a clear
        spark_submit.play(done)
        operator.execute(context(store, try_number=number, max_tries=max_tries))
    assert [call.argv[-4:] for call in spark_submit.calls] == [["--worker", "history/0", "--deployment", "1"]] * 2
    assert (orders.refresh().epoch, root.list(f"{JOB_ID}/requests")) == (2, [])


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_cleared_subtask_of_a_finished_job_succeeds_at_once(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, journal: Journals, mode: RuntimeMode
) -> None:
    ended(coordinated(prepared(journal(JOB_ID), mode=mode)), "FINISHED")
    operator = SubtaskTaskOperator(task_id="s", subtask="history/0", coordinate="orders.coordinate", **group_arguments)
    store = StateStore()
    assert operator.execute(context(store))["status"] == "FINISHED"
    assert operator.execute(context(store, try_number=2, max_tries=4))["status"] == "FINISHED"
    assert spark_submit.calls == []


@pytest.mark.parametrize("subtasks", [None, ["history", "rows/0"]])
def test_all_tasks_of_a_group_need_a_successful_plan(subtasks: list[str] | None) -> None:
    with DAG("shop", schedule=None) as dag:
        CheckpointedSparkJobGroup("orders", job="orders.py:job", subtasks=subtasks)
    later_tasks = [task for task in dag.tasks if task.task_id != "orders.plan"]
    assert len(later_tasks) == (2 if subtasks is None else 3)
    assert all(task.trigger_rule == "all_success" and "orders.plan" in task.upstream_task_ids for task in later_tasks)
