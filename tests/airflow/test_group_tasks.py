"""Tasks of a group in a first try, a retry, a clear and a new Dag run. Only spark-submit is fake."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.operators.plan_task import PlanTaskOperator
from airflow_provider_ckpt.operators.pointer import KEY
from airflow_provider_ckpt.operators.subtask_task import StandbyTaskOperator
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.group_task_states import Siblings
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import (
    JOB_ID,
    SUBTASKS,
    FakeTaskStates,
    coordinated,
    ended,
    finished,
    prepared,
    rescaled,
)
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status
from tests.support.processes import is_alive
from tests.support.waiting import wait_until

PREPARED = status("prepared", epoch=1, subtasks=SUBTASKS)
DONE = status("finished", "the subtasks of this worker have finished")


@pytest.fixture
def plan(group_arguments: dict[str, Any]) -> Callable[..., PlanTaskOperator]:
    return lambda **more: PlanTaskOperator(task_id="plan", **{**group_arguments, **more})


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return journal(JOB_ID)


def other_root(folder: Path, job_id: str = JOB_ID) -> tuple[Path, Journal]:
    """Create a root that spark-submit copies into the real one, as if the driver had written it."""
    return folder, Journal(open_root(open_storage(folder)), job_id)


# ---- plan


def test_a_plan_submits_the_planner_and_returns_the_subtask_names(
    plan: Any, spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path
) -> None:
    made, journal = other_root(tmp_path / "made")
    prepared(journal)
    spark_submit.play(PREPARED, copy=(made, Path(root.uri.removeprefix("file://"))))
    run = context(StateStore())
    assert plan(checkpoint_interval="5s").execute(run) == SUBTASKS
    (call,) = spark_submit.calls
    assert call.argv[-1] == "--plan"
    assert (call.options["job_id"], call.options["attempt"]) == (JOB_ID, f"{JOB_ID}~t1.plan")
    assert call.options["checkpoint_interval"] == 5.0
    assert call.value("--name") == f"{JOB_ID} plan"
    assert run["ti"].pushed[JOB_ID_XCOM] == JOB_ID


def test_a_plan_retry_does_not_take_over_a_live_deployment(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """A clear of the plan alone takes nothing over either, because the user does not mean the workers."""
    coordinated(prepared(orders), "by hand")
    store = StateStore()
    assert plan().execute(context(store, try_number=2)) == SUBTASKS
    assert plan().execute(context(store, try_number=3, max_tries=5)) == SUBTASKS
    assert spark_submit.calls == []
    assert orders.refresh().epoch == 2


def die_after_claim(plan: Any, spark_submit: FakeSparkSubmit, store: StateStore, **more: Any) -> None:
    """Run the first try of a plan, which dies after its claim."""
    spark_submit.play(status("started", epoch=1), exit=137)
    with pytest.raises(AirflowException, match="137"):
        plan(**more).execute(context(store))


def test_a_plan_retry_resumes_the_job_of_the_first_try(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its job_id changes with each try, like a template of the time of day."""
    store = StateStore()
    die_after_claim(plan, spark_submit, store)
    prepared(orders)
    assert plan(job_id="orders-12h05").execute(context(store, try_number=2)) == SUBTASKS
    assert f"began job {JOB_ID}, and this retry resumes that one" in capsys.readouterr().out
    assert len(spark_submit.calls) == 1


def test_a_plan_retry_under_another_root_fails_permanently(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, tmp_path: Path
) -> None:
    store = StateStore()
    die_after_claim(plan, spark_submit, store)
    prepared(orders)
    with pytest.raises(AirflowFailException, match="Give the task the earlier root"):
        plan(root=f"{tmp_path}/other").execute(context(store, try_number=2))
    assert len(spark_submit.calls) == 1


def test_a_plan_retry_that_does_not_find_its_job_fails_retryably(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    """A share that is not mounted looks like an empty folder. It may be mounted for the next try."""
    store = StateStore()
    ended(prepared(orders), "RESTARTING")
    die_after_claim(plan, spark_submit, store)
    root.delete_tree(JOB_ID)
    for _ in range(2):
        with pytest.raises(AirflowException, match="is the storage mounted") as raised:
            plan().execute(context(store, try_number=2))
        assert not isinstance(raised.value, AirflowFailException)
    assert len(spark_submit.calls) == 1


def test_a_plan_retry_does_not_take_a_job_from_another_dag_run(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    store = StateStore()
    die_after_claim(plan, spark_submit, store)
    ended(prepared(orders), "RESTARTING")
    coordinated(prepared(orders, "shop.orders.r2~t1.plan"), "shop.orders.r2~t1.coordinate")
    with pytest.raises(AirflowFailException, match="has taken it over"):
        plan().execute(context(store, try_number=2))
    assert len(spark_submit.calls) == 1


def test_a_rescale_does_not_change_the_subtasks_that_a_plan_returns(plan: Any, orders: Journal) -> None:
    """The number of Airflow tasks stays the same. Each one also runs the subtasks added to its worker."""
    rescaled(coordinated(prepared(orders)))
    assert plan().execute(context(StateStore(), try_number=2)) == SUBTASKS


@pytest.mark.parametrize("end", ["FINISHED", "STOPPED"])
def test_a_plan_retry_after_a_successful_end_does_nothing(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, end: str
) -> None:
    prepared(orders)
    store = StateStore()
    plan().execute(context(store))
    ended(coordinated(orders), end)
    assert plan().execute(context(store, try_number=2)) == SUBTASKS
    assert spark_submit.calls == []
    if end == "FINISHED":
        assert plan().execute(context(store, try_number=3, max_tries=5)) == SUBTASKS
    else:  # a user who clears it wants the job to resume
        spark_submit.play(exit=1)
        with pytest.raises(AirflowException):
            plan().execute(context(store, try_number=3, max_tries=5))
    assert len(spark_submit.calls) == (end == "STOPPED")


def test_a_retry_repeats_an_unfinished_plan(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    orders.claim(f"{JOB_ID}~t1.plan", Worker(), 1.0)
    spark_submit.play(status("failed", "executor lost"), exit=1)
    with pytest.raises(AirflowException, match="executor lost"):
        plan(restore="/x/chk-4").execute(context(StateStore(), try_number=2))
    assert spark_submit.calls[0].options["attempt"] == f"{JOB_ID}~t2.plan"


def test_a_failed_job_is_prepared_after_a_clear_but_not_in_a_retry(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    prepared(orders)
    store = StateStore()
    plan().execute(context(store))
    ended(coordinated(orders), "FAILED")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        plan().execute(context(store, try_number=2))
    assert spark_submit.calls == []
    spark_submit.play(status("refused", "no such file"), exit=2)
    with pytest.raises(AirflowFailException, match="no such file"):
        plan().execute(context(store, try_number=2, max_tries=3))
    assert spark_submit.calls[0].options["resume_failed"] is True


def test_a_new_dag_run_prepares_the_job_of_the_previous_one(
    plan: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], root: Storage, tmp_path: Path
) -> None:
    ended(coordinated(prepared(journal("feed"), "shop.orders.r0~t1.plan")), "STOPPED")
    made, copy = other_root(tmp_path / "made", "feed")
    ended(coordinated(prepared(copy, "shop.orders.r0~t1.plan")), "STOPPED")
    prepared(copy)
    spark_submit.play(PREPARED, copy=(made, Path(root.uri.removeprefix("file://"))))
    assert plan(job_id="feed").execute(context(StateStore())) == SUBTASKS
    assert spark_submit.calls[0].options["job_id"] == "feed"


def test_a_planner_that_prepares_nothing_fails_its_task(plan: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play()
    with pytest.raises(AirflowException, match="is not prepared"):
        plan().execute(context(StateStore()))


def test_a_group_runs_in_client_mode(plan: Any, spark_submit: FakeSparkSubmit) -> None:
    with pytest.raises(AirflowFailException, match="client mode"):
        plan(deploy_mode="cluster").execute(context(StateStore()))
    assert spark_submit.calls == []


def test_killing_the_plan_ends_its_driver_and_leaves_no_request(
    plan: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    """A left-over request would stop the job that the next try has prepared."""
    orders.claim(f"{JOB_ID}~t1.plan", Worker(), 1.0)
    spark_submit.play(status("started", epoch=1), wait=True)
    assert "A retry prepares the job again" in str(killed(plan(), spark_submit))
    assert root.list(f"{JOB_ID}/requests") == []


def killed(operator: Any, spark_submit: FakeSparkSubmit) -> AirflowException:
    """Kill the task while spark-submit waits, and return the exception that its execution raises."""
    raised: list[AirflowException] = []

    def run() -> None:
        try:
            operator.execute(context(StateStore()))
        except AirflowException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until((spark_submit.folder / "waiting").exists, "spark-submit")
    operator.on_kill()
    thread.join(60)
    (error,) = raised
    assert not isinstance(error, AirflowFailException), "worth a retry"
    assert not is_alive(spark_submit.calls[0].pid)
    return error


# ---- a subtask


def test_a_subtask_task_runs_a_worker_of_its_dag_runs_deployment(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    coordinated(prepared(orders))
    spark_submit.play(status("started", epoch=2), DONE)
    store = StateStore()
    result = subtask().execute(context(store))
    assert (result["job_id"], result["subtask"]) == (JOB_ID, "history/0")
    (call,) = spark_submit.calls
    assert call.argv[-4:] == ["--worker", "history/0", "--deployment", "1"]
    assert call.value("--name") == f"{JOB_ID} history/0"
    assert store.values[KEY]["status"] == "FINISHED"


def test_a_worker_gets_the_poll_and_silence_of_its_group(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    coordinated(prepared(orders))
    spark_submit.play(DONE)
    subtask(poll="250ms", lost_after="10s", silence="1m30s").execute(context(StateStore()))
    assert spark_submit.calls[0].argv[-12:-8] == ["--poll", "0.25", "--silence", "90"]


def test_w14_a_worker_gets_the_try_number_of_its_task(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """All tries of the task get the same text. A Dag run that was deleted and created again gets another."""
    coordinated(prepared(orders))
    runs = [context(StateStore(), try_number=number) for number in (1, 2, 1)]
    runs[2]["dag_run"].start_date += timedelta(days=1)
    for run in runs:
        spark_submit.play(DONE)
        subtask().execute(run)
    tries = [(call.value("--try-of"), call.value("--try")) for call in spark_submit.calls]
    assert [number for _, number in tries] == ["1", "2", "1"]
    assert tries[0][0] == tries[1][0] == "shop/r1/orders/-1/2026-01-01T00:00:00+00:00"
    assert tries[2][0] != tries[0][0]


def test_only_a_failed_worker_is_retried(subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal) -> None:
    """The job gets no request. The next try is another attempt of the same subtask."""
    coordinated(prepared(orders))
    spark_submit.play(status("failed", "history/0 failed: disk full"), exit=1)
    spark_submit.play(DONE)
    store = StateStore()
    with pytest.raises(AirflowException, match="disk full") as caught:
        subtask().execute(context(store))
    assert not isinstance(caught.value, AirflowFailException)
    subtask().execute(context(store, try_number=2))
    assert [call.argv[-1] for call in spark_submit.calls] == ["1", "1"]
    assert orders.refresh().epoch == 2


def test_an_edited_job_file_fails_the_worker_permanently_with_the_difference(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """No other try would find the earlier file. The job continues, and gets no request."""
    coordinated(prepared(orders))
    message = "orders.py, of this worker, differs from the file of the job in: the function of 'history'"
    spark_submit.play(status("refused", message), exit=ExitCode.REFUSED)
    with pytest.raises(AirflowFailException, match="the function of 'history'"):
        subtask().execute(context(StateStore(), try_number=2))
    assert orders.refresh().epoch == 2
    assert orders.state.is_held


@pytest.mark.parametrize("end", ["FINISHED", "STOPPED"])
def test_a_subtask_of_a_successful_job_starts_no_worker(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, end: str
) -> None:
    ended(coordinated(prepared(orders)), end)
    assert subtask().execute(context(StateStore()))["status"] == end
    assert spark_submit.calls == []


def test_clearing_a_finished_subtask_does_not_run_it_again(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    finished(coordinated(prepared(orders)), "history/0")
    subtask().execute(context(StateStore(), try_number=2, max_tries=3))
    assert spark_submit.calls == []
    spark_submit.play(DONE)
    subtask(subtask="history").execute(context(StateStore()))
    assert "history" in spark_submit.calls[0].argv, "the other one of its vertex has not"


BLIND = WaitResult("s3://lake may not be read", is_blind=True).to_json()
"""Event of a triggerer that lacks access which the worker has."""


def test_a_task_waits_in_its_slot_if_the_triggerer_cannot_read_the_root(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates
) -> None:
    """Otherwise the task would move between slot and triggerer forever."""
    ended(coordinated(prepared(orders)), "RESTARTING")
    task_states.states = {"orders.coordinate": "up_for_retry"}
    task_states.on_look = lambda number: prepared(orders, f"{JOB_ID}~t2.coordinate") if number == 3 else None
    spark_submit.play(DONE)
    subtask().execute_complete(context(StateStore(), try_number=2), BLIND)
    assert task_states.looks == 4, "each time that it waits, and once before it begins"
    assert spark_submit.calls[0].argv[-1] == "3"


@pytest.mark.parametrize("state", ["failed", "upstream_failed"])
def test_a_subtask_without_a_coordinate_task_fails_permanently(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates, state: str
) -> None:
    """This also holds while the deployment lives, because no JobMaster would commit the worker's output."""
    task_states.states = {"orders.coordinate": state}
    coordinated(prepared(orders))
    with pytest.raises(AirflowFailException, match="no JobMaster coordinates history/0"):
        subtask().execute(context(StateStore(), try_number=2))
    ended(orders, "RESTARTING")
    with pytest.raises(AirflowFailException, match="no JobMaster coordinates history/0"):
        subtask().execute(context(StateStore(), try_number=2))
    assert spark_submit.calls == []


@pytest.mark.slow
def test_a_wait_that_exceeds_the_silence_fails_retryably(subtask: Any, orders: Journal) -> None:
    ended(coordinated(prepared(orders)), "RESTARTING")
    with pytest.raises(AirflowException, match="was not prepared again within") as caught:
        subtask(silence=4.2).execute_complete(context(StateStore(), try_number=2), BLIND)
    assert not isinstance(caught.value, AirflowFailException)


def test_a_failed_job_fails_its_subtasks_permanently(subtask: Any, orders: Journal) -> None:
    ended(coordinated(prepared(orders)), "FAILED")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        subtask().execute(context(StateStore(), try_number=2))


def test_a_subtask_does_not_join_a_job_that_another_dag_run_has(
    subtask: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    prepared(journal("feed"), "shop.orders.r2~t1.plan")
    with pytest.raises(AirflowFailException, match=r"shop\.orders\.r2~t1\.plan has taken it over"):
        subtask(job_id="feed").execute(context(StateStore(), try_number=2))
    assert spark_submit.calls == []


def test_w14_a_worker_fenced_by_an_earlier_try_fails_retryably(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """The earlier try slept while Spark started. A permanent failure would end the whole group."""
    coordinated(prepared(orders))
    spark_submit.play(status("fenced", "history/0 was taken over"), exit=4)
    with pytest.raises(AirflowException, match="was taken over") as caught:
        subtask().execute(context(StateStore()))
    assert not isinstance(caught.value, AirflowFailException)


def test_a_worker_fenced_by_another_dag_run_fails_permanently(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage, tmp_path: Path
) -> None:
    coordinated(prepared(orders))
    made, copy = other_root(tmp_path / "made")
    prepared(coordinated(prepared(copy)), "shop.orders.r2~t1.plan")
    spark_submit.play(
        status("fenced", "deployment 1 is over"), exit=4, copy=(made, Path(root.uri.removeprefix("file://")))
    )
    with pytest.raises(AirflowFailException, match="deployment 1 is over"):
        subtask().execute(context(StateStore()))


def test_a_fenced_worker_joins_the_next_deployment_of_its_dag_run(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage, tmp_path: Path
) -> None:
    coordinated(prepared(orders))
    made, copy = other_root(tmp_path / "made")
    ended(coordinated(prepared(copy)), "RESTARTING")
    prepared(copy, f"{JOB_ID}~t2.coordinate")
    spark_submit.play(
        status("fenced", "deployment 1 is over"), exit=4, copy=(made, Path(root.uri.removeprefix("file://")))
    )
    with pytest.raises(TaskDeferred) as caught:
        subtask().execute(context(StateStore()))
    assert caught.value.trigger.serialize()[1]["attempt"] == f"{JOB_ID}~t1.subtask"
    spark_submit.play(DONE)
    subtask().execute_complete(context(StateStore()), WaitResult("the job is prepared").to_json())
    assert [call.argv[-1] for call in spark_submit.calls] == ["1", "3"]


def test_exit_code_0_without_a_status_line_fails_the_task(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    coordinated(prepared(orders))
    spark_submit.play(status("started", epoch=2))
    with pytest.raises(AirflowException, match="without a reason"):
        subtask().execute(context(StateStore()))


def test_a_kill_ends_only_the_worker_and_sends_the_job_no_request(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    coordinated(prepared(orders))
    spark_submit.play(status("started", epoch=2), wait=True)
    assert "a retry resumes it" in str(killed(subtask(stop_grace=60), spark_submit))
    assert root.list(f"{JOB_ID}/requests") == []


def test_a_kill_ends_the_wait_of_a_subtask(subtask: Any, orders: Journal, task_states: FakeTaskStates) -> None:
    ended(coordinated(prepared(orders)), "RESTARTING")
    operator = subtask()
    task_states.on_look = lambda number: operator.on_kill() if number == 2 else None
    with pytest.raises(AirflowException, match="was killed while it waited"):
        operator.execute_complete(context(StateStore(), try_number=2), BLIND)


# ---- standby tasks


def worker_of(call: Any) -> list[str]:
    """Return the arguments of spark-submit from ``--worker`` on."""
    return list(call.argv[call.argv.index("--worker") :])


def test_a_standby_task_stands_by_for_all_begun_subtasks(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Siblings, "states", FakeTaskStates())
    rescaled(coordinated(prepared(orders)))
    spark_submit.play(DONE)
    standby = StandbyTaskOperator(
        task_id="standby-1", coordinate="orders.coordinate", lost_after="20s", **group_arguments
    )
    standby.execute(context(StateStore()))
    (call,) = spark_submit.calls
    arguments = [word for subtask_name in SUBTASKS for word in ("--worker", subtask_name)]
    assert worker_of(call) == [*arguments, "--standby", "--begun", "--deployment", "1"]
    assert call.value("--lost-after") == "20"
    assert call.options["attempt"] == f"{JOB_ID}~t1.standby"


def test_a_standby_task_ends_when_all_subtasks_have_finished(
    group_arguments: dict[str, Any], spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    finished(coordinated(prepared(orders)), *SUBTASKS)
    standby = StandbyTaskOperator(task_id="standby-1", coordinate="orders.coordinate", **group_arguments)
    assert standby.execute(context(StateStore()))["status"] == "RUNNING"
    assert spark_submit.calls == []


def test_a_subtask_retry_stands_by_if_the_group_has_standbys(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """The retry assumes that a standby runs the subtask. If none does, the retry starts it at once."""
    coordinated(prepared(orders))
    store = StateStore()
    spark_submit.play(exit=137)
    with pytest.raises(AirflowException):
        subtask(has_standbys=True).execute(context(store))
    spark_submit.play(DONE)
    subtask(has_standbys=True).execute(context(store, try_number=2))
    first, second = map(worker_of, spark_submit.calls)
    assert "--standby" not in first
    assert second[:3] == [*first[:2], "--standby"]
    assert "--begun" not in second
