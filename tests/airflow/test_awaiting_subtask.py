"""W7: a subtask's task whose worker has no JobMaster waits for one without spending a try.

Only spark-submit is fake.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout, TaskDeferred

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import JOB_ID, FakeTaskStates, coordinated, ended, finished, prepared
from tests.airflow.support import FakeSparkSubmit, StateStore, context, deferral_of, status

LEAVES = status("failed", "this worker stops, because no JobMaster gives a sign of life", epoch=2, no_master=True)
DONE = status("finished", "the subtasks of this worker have finished")
BACK = WaitResult("the JobMaster of epoch 3 has the job").to_json()
ALONE = WaitResult("the task that runs the JobMaster is success", is_alone=True).to_json()


@pytest.fixture
def task_states(task_states: FakeTaskStates) -> FakeTaskStates:
    """Let Airflow report the JobMaster's task as deferred."""
    task_states.states = {"orders.coordinate": "deferred"}
    return task_states


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return coordinated(prepared(journal(JOB_ID)))


def test_a_task_whose_worker_lost_its_jobmaster_is_deferred(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit.play(status("started", epoch=2), LEAVES, exit=1)
    store, task = StateStore(), subtask(poll_interval="20s")
    wait = deferral_of(task, context(store))
    assert isinstance(wait.trigger, AwaitedMasterTrigger)
    _, kept = wait.trigger.serialize()
    assert (kept["job_id"], kept["deployment"], kept["epoch"]) == (JOB_ID, 1, 2)
    assert (kept["coordinate"], kept["poll_interval"]) == ("orders.coordinate", 20.0)
    assert wait.timeout is None
    assert capsys.readouterr().out.count("that costs no try and holds no worker slot") == 1


def test_the_same_try_starts_another_worker_when_a_jobmaster_is_back(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    spark_submit.play(LEAVES, exit=1)
    spark_submit.play(DONE)
    store = StateStore()
    wait = deferral_of(subtask(), context(store))
    coordinated(orders)
    result = subtask().resume_execution(wait.method_name, {"event": BACK}, context(store))
    assert result["subtask"] == "history/0"
    assert [call.argv[-1] for call in spark_submit.calls] == ["1", "1"]
    assert len({call.options["attempt"] for call in spark_submit.calls}) == 1, "one try"


def test_a_try_can_be_deferred_several_times(subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal) -> None:
    store = StateStore()
    for _ in range(3):
        spark_submit.play(LEAVES, exit=1)
    deferral_of(subtask(), context(store))
    for _ in range(2):
        with pytest.raises(TaskDeferred):
            subtask().execute_complete(context(store), BACK)


def test_a_task_that_starts_before_any_jobmaster_waits_for_the_first(
    subtask: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    prepared(journal(JOB_ID))
    spark_submit.play(status("failed", "no JobMaster", epoch=1, no_master=True), exit=1)
    wait = deferral_of(subtask(), context(StateStore()))
    assert isinstance(wait.trigger, AwaitedMasterTrigger)
    assert (wait.trigger.deployment, wait.trigger.epoch) == (1, 1)


def test_another_failure_of_a_worker_fails_the_try(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    spark_submit.play(status("failed", "history/0 failed: disk full", epoch=2), exit=1)
    with pytest.raises(AirflowException, match="disk full"):
        subtask().execute(context(StateStore()))


@pytest.mark.parametrize("end", ["FINISHED", "STOPPED"])
def test_a_task_starts_no_worker_if_the_job_has_ended_meanwhile(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, end: str
) -> None:
    ended(orders, end)
    assert subtask().execute_complete(context(StateStore()), BACK)["status"] == end
    assert spark_submit.calls == []


def test_a_subtask_that_finished_meanwhile_is_not_run_again(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    finished(orders, "history/0")
    subtask().execute_complete(context(StateStore()), BACK)
    assert spark_submit.calls == []


def test_a_job_that_failed_meanwhile_fails_the_task_permanently(subtask: Any, orders: Journal) -> None:
    ended(orders, "FAILED")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        subtask().execute_complete(context(StateStore()), BACK)


def test_a_task_joins_a_job_that_was_prepared_again_meanwhile(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    prepared(ended(orders, "RESTARTING"), f"{JOB_ID}~t2.coordinate")
    spark_submit.play(DONE)
    subtask().execute_complete(context(StateStore()), BACK)
    assert spark_submit.calls[0].argv[-1] == "3"


OVER = status("failed", f"job {JOB_ID} is RESTARTING, so this worker stops", epoch=2, run_over=True)


def test_a_failed_run_defers_its_subtasks_without_failing_a_try(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    """The task of the JobMaster must prepare the job again. It may need this very slot, and it may take long."""
    spark_submit.play(OVER, exit=1)
    spark_submit.play(DONE)
    wait = deferral_of(subtask(poll_interval=3), context(StateStore()))
    assert isinstance(wait.trigger, AwaitedMasterTrigger)
    assert (wait.trigger.attempt, wait.trigger.poll_interval) == (f"{JOB_ID}~t1.subtask", 3.0)
    assert "deferred until 'orders.coordinate' has done it; that costs no try" in capsys.readouterr().out
    prepared(ended(orders, "RESTARTING"), f"{JOB_ID}~t2.coordinate")
    subtask().execute_complete(context(StateStore()), WaitResult("the job is prepared").to_json())
    assert [call.argv[-1] for call in spark_submit.calls] == ["1", "3"]


def test_a_retry_is_deferred_if_the_run_has_failed(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    ended(orders, "RESTARTING")
    with pytest.raises(TaskDeferred) as caught:
        subtask(silence=4.2).execute(context(StateStore(), try_number=2))
    assert caught.value.trigger.serialize()[1]["attempt"] == f"{JOB_ID}~t2.subtask"
    assert spark_submit.calls == []


def test_a_failed_worker_fails_the_try_even_if_the_run_has_ended(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates
) -> None:
    task_states.on_look = lambda number: ended(orders, "RESTARTING")  # after the task has found that the job runs
    spark_submit.play(status("failed", "history/0 failed: disk full", epoch=2), exit=1)
    with pytest.raises(AirflowException, match="disk full"):
        subtask().execute(context(StateStore()))


def test_a_job_that_was_taken_over_meanwhile_is_not_taken_back(subtask: Any, orders: Journal) -> None:
    prepared(orders, "shop.orders.r2~t1.plan")
    with pytest.raises(AirflowFailException, match="has taken it over"):
        subtask().execute_complete(context(StateStore()), BACK)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_an_ended_coordinate_task_fails_the_subtask_permanently(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates, state: str
) -> None:
    """Otherwise the task would start a worker every few minutes, forever."""
    task_states.states = {"orders.coordinate": state}
    with pytest.raises(AirflowFailException, match=f"is {state}: no JobMaster coordinates history/0"):
        subtask().execute_complete(context(StateStore()), ALONE)
    assert spark_submit.calls == []


def test_a_task_joins_a_coordinate_task_that_was_cleared_meanwhile(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    spark_submit.play(DONE)
    subtask().execute_complete(context(StateStore()), ALONE)
    assert len(spark_submit.calls) == 1


def test_a_clear_does_not_depend_on_an_earlier_wait(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates
) -> None:
    """Airflow ends the trigger, which holds nothing, and executes another try, as it does for a running task."""
    spark_submit.play(LEAVES, exit=1)
    spark_submit.play(DONE)
    store, task = StateStore(), subtask()
    deferral_of(task, context(store))
    task_states.states = {"orders.coordinate": "success"}
    task.execute(context(store, try_number=2, max_tries=4))
    assert len(spark_submit.calls) == 2


def test_the_wait_lasts_for_the_rest_of_the_execution_timeout(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """Airflow would restart the timeout in each process of a try."""
    for hours, left in ((4, timedelta(hours=6)), (11, timedelta(0))):
        spark_submit.play(LEAVES, exit=1)
        run = context(StateStore())
        run["ti"].start_date = datetime.now(timezone.utc) - timedelta(hours=hours)
        timeout = deferral_of(subtask(execution_timeout=timedelta(hours=10)), run).timeout
        assert timedelta(0) <= left - timeout < timedelta(minutes=5)


def test_a_wait_that_times_out_sends_no_request(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    spark_submit.play(status("started", epoch=2), LEAVES, exit=1)
    store = StateStore()
    deferral_of(subtask(), context(store))
    with pytest.raises(TaskDeferralTimeout):
        subtask().resume_execution("__fail__", {"error": "Trigger timeout"}, context(store))
    assert pending_requests(root, JOB_ID, 2, {}, 1) == []


def test_a_trigger_without_an_event_starts_a_worker(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    spark_submit.play(DONE)
    subtask().execute_complete(context(StateStore()), None)
    assert len(spark_submit.calls) == 1
