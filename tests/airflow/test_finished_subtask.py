"""Task of a subtask that has finished in a batch job. It waits until the job has ended.

The subtask's result may be lost before other subtasks have read it, and Airflow does not rerun a successful task. Only
spark-submit is fake.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import (
    JOB_ID,
    FakeTaskStates,
    coordinated,
    deleted,
    ended,
    finished,
    prepared,
    prepared_from_scratch,
)
from tests.airflow.support import FakeSparkSubmit, StateStore, context, deferral_of, status

DONE = status("finished", "the subtasks of this worker have finished")
LEAVES = status("failed", "this worker stops, because no JobMaster gives a sign of life", epoch=4, no_master=True)
AGAIN = WaitResult("history/0 has to run again").to_json()
ALONE = WaitResult("the task that runs the JobMaster is failed", is_alone=True).to_json()
BLIND = WaitResult("s3://lake may not be read", is_blind=True).to_json()
RETRY = f"{JOB_ID}~t2.coordinate"


@pytest.fixture
def task_states(task_states: FakeTaskStates) -> FakeTaskStates:
    """Let Airflow report the JobMaster's task as deferred."""
    task_states.states = {"orders.coordinate": "deferred"}
    return task_states


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    """Prepare a batch job that is RUNNING."""
    return coordinated(prepared(journal(JOB_ID), mode="batch"))


def executed(task: SubtaskTaskOperator, run: Any = None) -> TaskDeferred:
    return deferral_of(task, context(StateStore()) if run is None else run)


def resumed(task: SubtaskTaskOperator, event: dict[str, Any], run: Any = None) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        task.execute_complete(context(StateStore()) if run is None else run, event, ran_well=True)
    return caught.value


def kept(wait: TaskDeferred) -> FinishedSubtaskTrigger:
    assert isinstance(wait.trigger, FinishedSubtaskTrigger)
    return wait.trigger


# ---- the wait


def test_a_task_whose_worker_succeeded_is_deferred_while_the_job_runs(
    subtask: Any,
    spark_submit: FakeSparkSubmit,
    orders: Journal,
    task_states: FakeTaskStates,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spark_submit.play(DONE)
    task_states.on_look = lambda number: finished(orders, "history/0")  # the task has already decided that it must run
    wait = executed(subtask(poll_interval="20s"))
    _, trigger = kept(wait).serialize()
    assert trigger == {
        "job_id": JOB_ID,
        "coordinate": "orders.coordinate",
        "ckpt_conn_id": "ckpt_default",
        "root": trigger["root"],
        "poll_interval": 20.0,
        "attempt": f"{JOB_ID}~t1.subtask",
        "subtasks": ["history/0"],
        "deployment": 1,
    }
    assert "history/0 has finished" in capsys.readouterr().out


def test_a_task_of_a_vertex_waits_for_all_its_subtasks(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    spark_submit.play(DONE)
    assert kept(executed(subtask(subtask="history"))).subtasks == ["history/0", "history/1"]


def test_a_finished_subtask_in_streaming_mode_succeeds_at_once(
    subtask: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    """A lost result cannot be produced again in streaming mode, because checkpoints cover it."""
    orders = coordinated(prepared(journal(JOB_ID), mode="streaming"))
    spark_submit.play(DONE)
    assert subtask().execute(context(StateStore()))["subtask"] == "history/0"
    finished(orders, "history/0")
    assert subtask().execute(context(StateStore(), try_number=2))["subtask"] == "history/0"
    assert len(spark_submit.calls) == 1


def test_a_worker_whose_end_is_not_journaled_ended_in_its_deployment(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """For example without a JobMaster. The next JobMaster reads the end in the subtask's log."""
    spark_submit.play(DONE)
    assert kept(executed(subtask())).deployment == 1


def test_a_finished_subtask_waits_also_if_its_run_has_failed(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates
) -> None:
    task_states.on_look = lambda number: ended(finished(orders, "history/0"), "RESTARTING")
    spark_submit.play(DONE)
    assert kept(executed(subtask())).deployment == 1


def test_a_subtask_does_not_wait_if_the_job_has_finished(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates
) -> None:
    task_states.on_look = lambda number: ended(orders, "FINISHED")
    spark_submit.play(DONE)
    assert subtask().execute(context(StateStore()))["status"] == "FINISHED"


def test_an_unreadable_journal_after_the_workers_end_fails_no_try(
    subtask: Any,
    spark_submit: FakeSparkSubmit,
    orders: Journal,
    task_states: FakeTaskStates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, broken = JobClient.read_state, list[bool]()

    def look(client: JobClient) -> JobState:
        if broken:
            raise StorageTransientError(verb="read", uri="s3", reason="reset")
        return real(client)

    monkeypatch.setattr(JobClient, "read_state", look)
    task_states.on_look = lambda number: broken.append(True)
    spark_submit.play(DONE)
    assert kept(executed(subtask())).deployment == 1


def test_a_retry_or_clear_of_a_finished_subtask_starts_no_worker(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    finished(orders, "history/0")
    for number, max_tries in ((2, 2), (3, 5)):
        run = context(StateStore(), try_number=number, max_tries=max_tries)
        assert kept(executed(subtask(), run)).attempt == f"{JOB_ID}~t{number}.subtask"
    assert spark_submit.calls == []


def test_a_subtask_finished_in_an_earlier_dag_run_waits_too(
    subtask: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    feed = ended(
        finished(coordinated(prepared(journal("feed"), "shop.orders.r0~t1.plan", mode="batch")), "history/0"),
        "RESTARTING",
    )
    coordinated(prepared(feed, mode="batch"))
    assert kept(executed(subtask(job_id="feed"))).deployment == 3
    assert spark_submit.calls == []


def test_a_retry_waits_until_the_job_is_prepared_again(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """Only the next deployment decides whether the subtask must run again."""
    ended(finished(orders, "history/0"), "RESTARTING")
    assert isinstance(executed(subtask(), context(StateStore(), try_number=2)).trigger, AwaitedMasterTrigger)


# ---- after the wait


def test_a_subtask_that_must_run_again_does_so_in_the_same_try(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    finished(orders, "history/0")
    coordinated(prepared(ended(orders, "RESTARTING"), RETRY, mode="batch", again=["history/0"]), RETRY)
    spark_submit.play(DONE)
    assert kept(resumed(subtask(), AGAIN)).deployment == 3, "and waits again"
    (call,) = spark_submit.calls
    assert call.argv[-4:] == ["--worker", "history/0", "--deployment", "3"]
    assert (call.value("--try"), call.options["attempt"]) == ("1", f"{JOB_ID}~t1.subtask")


def test_a_job_restarted_from_scratch_runs_the_subtask_again(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """``batch_recovery`` is off, so the whole job runs again."""
    prepared_from_scratch(ended(finished(orders, "history/0"), "RESTARTING"))
    spark_submit.play(DONE)
    resumed(subtask(), AGAIN)
    assert spark_submit.calls[0].argv[-1] == "3"


def test_a_later_deployment_that_keeps_the_result_starts_no_worker(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """The second deployment came after the event, before the resumed process started."""
    coordinated(prepared(ended(orders, "RESTARTING"), RETRY, mode="batch", again=["history/0"]), RETRY)
    finished(orders, "history/0")
    prepared(ended(orders, "RESTARTING"), f"{JOB_ID}~t3.coordinate", mode="batch")
    assert kept(resumed(subtask(), AGAIN)).deployment == 5
    assert spark_submit.calls == []


def test_a_subtask_waits_if_the_job_must_be_prepared_again(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    prepared(ended(orders, "RESTARTING"), RETRY, mode="batch", again=["history/0"])
    ended(orders, "RESTARTING")
    wait = resumed(subtask(), AGAIN)
    assert isinstance(wait.trigger, AwaitedMasterTrigger)
    assert wait.trigger.attempt == f"{JOB_ID}~t1.subtask"


@pytest.mark.parametrize("end", ["FINISHED", "STOPPED"])
def test_a_successful_job_ends_the_wait_with_success(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, end: str
) -> None:
    ended(finished(orders, "history/0"), end)
    over = WaitResult(f"the job is {end}").to_json()
    assert subtask().execute_complete(context(StateStore()), over, ran_well=True)["status"] == end
    assert spark_submit.calls == []


def test_a_job_deleted_after_it_finished_ends_the_wait_with_success(subtask: Any, orders: Journal) -> None:
    """The clean-up task waits only for ``coordinate``, so it may delete the job before this task notices the end."""
    deleted(ended(finished(orders, "history/0"), "FINISHED"))
    over = WaitResult("the job is FINISHED").to_json()
    assert subtask().execute_complete(context(StateStore()), over, ran_well=True)["subtask"] == "history/0"


def test_a_job_deleted_unfinished_fails_the_task_permanently(subtask: Any, orders: Journal) -> None:
    deleted(ended(finished(orders, "history/0"), "RESTARTING"))
    with pytest.raises(AirflowFailException, match="is DELETED since"):
        subtask().execute_complete(context(StateStore()), WaitResult("the job is DELETED").to_json(), ran_well=True)


def test_a_failed_job_fails_the_task_permanently(subtask: Any, orders: Journal) -> None:
    """A successful task would be missing among the failed tasks that a user clears after correcting the cause."""
    ended(finished(orders, "history/0"), "FAILED")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        subtask().execute_complete(context(StateStore()), WaitResult("the job is FAILED").to_json(), ran_well=True)


def test_a_job_that_was_taken_over_fails_the_task_permanently(subtask: Any, orders: Journal) -> None:
    prepared(finished(orders, "history/0"), "shop.orders.r2~t1.plan", mode="batch")
    with pytest.raises(AirflowFailException, match="has taken it over"):
        subtask().execute_complete(context(StateStore()), WaitResult("r2 has the job").to_json(), ran_well=True)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_an_ended_coordinate_task_fails_the_wait_permanently(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, task_states: FakeTaskStates, state: str
) -> None:
    ended(finished(orders, "history/0"), "RESTARTING")
    task_states.states = {"orders.coordinate": state}
    with pytest.raises(AirflowFailException, match=f"is {state}: no JobMaster coordinates history/0"):
        subtask().execute_complete(context(StateStore()), ALONE, ran_well=True)


def test_the_wait_continues_if_the_coordinate_task_was_cleared(subtask: Any, orders: Journal) -> None:
    finished(orders, "history/0")
    assert kept(resumed(subtask(), ALONE)).deployment == 1


@pytest.mark.slow
def test_an_unreadable_journal_after_the_end_fails_retryably(
    subtask: Any, orders: Journal, root: Storage, task_states: FakeTaskStates
) -> None:
    """The job may be FINISHED. So the task fails this try only, and the next try reads the journal again."""
    task_states.states = {"orders.coordinate": "success"}
    root.delete_tree(f"{JOB_ID}/journal")
    with pytest.raises(AirflowException, match="could not be read within") as caught:
        subtask(silence=4.2).execute_complete(context(StateStore()), ALONE, ran_well=True)
    assert not isinstance(caught.value, AirflowFailException)


# ---- limits of other tasks and of this task


def test_the_wait_does_not_count_against_the_execution_timeout(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """Other subtasks may take days.

    When the subtask runs again, its timeout starts then, and includes waits for a JobMaster.
    """
    limit = timedelta(hours=2)
    spark_submit.play(DONE)
    run = context(StateStore())
    run["ti"].start_date = datetime.now(timezone.utc) - timedelta(days=3)
    wait = executed(subtask(execution_timeout=limit), run)
    assert (wait.timeout, wait.kwargs) == (None, {"ran_well": True})
    coordinated(prepared(ended(orders, "RESTARTING"), RETRY, mode="batch"), RETRY)
    spark_submit.play(LEAVES, exit=1)
    second = resumed(subtask(execution_timeout=limit), AGAIN, run)
    assert isinstance(second.trigger, AwaitedMasterTrigger)
    assert limit - timedelta(minutes=5) < second.timeout <= limit
    spark_submit.play(LEAVES, exit=1)
    with pytest.raises(TaskDeferred) as caught:
        subtask(execution_timeout=limit).execute_complete(run, AGAIN, **(second.kwargs or {}))
    assert timedelta(0) < caught.value.timeout < second.timeout
    assert caught.value.kwargs == second.kwargs


def test_a_new_try_does_not_depend_on_an_earlier_wait(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal
) -> None:
    """``dag.test()`` reuses the same operator object."""
    task, run = subtask(execution_timeout=timedelta(hours=2)), context(StateStore())
    run["ti"].start_date = datetime.now(timezone.utc) - timedelta(hours=1)
    finished(orders, "history/0")
    resumed(task, AGAIN, run)
    prepared(ended(orders, "RESTARTING"), RETRY, mode="batch", again=["history/0"])
    spark_submit.play(LEAVES, exit=1)
    assert executed(task, run).timeout < timedelta(hours=1)


def test_a_triggerer_that_cannot_read_the_root_ends_the_wait_with_success(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    """Waiting in its slot might block other tasks, and deferring would repeat forever."""
    finished(orders, "history/0")
    assert subtask().execute_complete(context(StateStore()), BLIND, ran_well=True)["subtask"] == "history/0"
    assert "clear the group" in capsys.readouterr().out
    prepared(ended(orders, "RESTARTING"), RETRY, mode="batch", again=["history/0"])
    spark_submit.play(DONE)
    assert subtask().execute_complete(context(StateStore()), BLIND, ran_well=True)["subtask"] == "history/0"
    assert len(spark_submit.calls) == 1, "it was needed, and ran"


def test_a_task_with_deferrable_false_is_never_deferred(
    subtask: Any,
    spark_submit: FakeSparkSubmit,
    orders: Journal,
    task_states: FakeTaskStates,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The task succeeds as soon as its worker has ended, and waits for a preparation in its slot.

    Any other wait is left to the next try.
    """
    task_states.on_look = lambda number: finished(orders, "history/0") if number == 1 else None
    spark_submit.play(DONE)
    assert subtask(deferrable=False).execute(context(StateStore()))["subtask"] == "history/0"
    assert "deferrable=False. This task ends now" in capsys.readouterr().out
    for left in (LEAVES, status("failed", "job is RESTARTING, so this worker stops", run_over=True)):
        spark_submit.play(left, exit=1)
        with pytest.raises(AirflowException, match="this worker stops") as caught:
            subtask(deferrable=False, subtask="rows/0").execute(context(StateStore()))
        assert not isinstance(caught.value, AirflowFailException)
    ended(orders, "RESTARTING")
    task_states.looks, task_states.on_look = (
        0,
        lambda number: prepared(orders, RETRY, mode="batch") if number == 2 else None,
    )
    spark_submit.play(DONE)
    again = subtask(deferrable=False, subtask="rows/0").execute(context(StateStore(), try_number=2))
    assert again["subtask"] == "rows/0"
    assert spark_submit.calls[-1].argv[-1] == "3"


@pytest.mark.parametrize("bound", ["max_active_tis_per_dag", "max_active_tis_per_dagrun"])
def test_a_mapped_task_with_a_concurrency_limit_is_not_deferred(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, bound: str
) -> None:
    """Airflow counts deferred tasks for this limit, so the last tasks would never start."""
    finished(orders, "history/0")
    mapped = context(StateStore())
    mapped["ti"].map_index = 0
    assert subtask(**{bound: 2}).execute(mapped)["subtask"] == "history/0"
    # the limit does not apply to a task that is not mapped
    for enough, run in ((3, mapped), (1, context(StateStore()))):
        assert kept(executed(subtask(**{bound: enough}), run)).subtasks == ["history/0"]


def test_clearing_a_waiting_task_starts_another_try_that_waits(
    subtask: Any, spark_submit: FakeSparkSubmit, orders: Journal, root: Storage
) -> None:
    """Airflow ends the trigger, which holds nothing. No worker is asked to leave."""
    finished(orders, "history/0")
    wait, files = executed(subtask()), root.files("")
    run = context(StateStore(), try_number=2, max_tries=4)
    assert kept(executed(subtask(), run)).subtasks == kept(wait).subtasks
    assert root.files("") == files
    assert spark_submit.calls == []
