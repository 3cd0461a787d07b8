"""Task that deletes a job that has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.job_cleanup import CheckpointedJobCleanupOperator
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import StateStore, context
from tests.client.ended_job import EndedJob
from tests.client.persisted_job import JOB, PersistedJob

JobOf = Callable[[str], Journal]
NOTHING: dict[str, Any] = {"status": None, "was": None, "files": 0, "bytes": 0, "staged": {}, "left": []}


def operator(root: str | Path, **arguments: Any) -> CheckpointedJobCleanupOperator:
    given = {"task_id": "clean", "job_id": "orders", "root": str(root), "ckpt_conn_id": None, **arguments}
    return CheckpointedJobCleanupOperator(**given)


def clean(root: str | Path, **arguments: Any) -> dict[str, Any]:
    return operator(root, **arguments).execute(context(StateStore()))


def status_of(root: Storage, job_id: str = "orders") -> JobStatus | None:
    return Journal(root, job_id).replay().status


def test_a_finished_job_is_deleted_and_the_deletion_is_counted(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    files, output = job.files(), job.output()
    result = clean(job.root)
    assert result == {
        "job_id": "orders",
        "status": "DELETED",
        "was": "FINISHED",
        "files": len(files),
        "bytes": sum(map(len, files.values())),
        "staged": {"lake": 1},
        "left": [],
    }
    assert {type(value) for value in result.values()} == {str, int, dict, list}
    assert (job.parts(), job.staged(), job.output()) == (["journal"], [], output)


def test_a_retry_accepts_a_deleted_job(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    clean(job.root)
    assert clean(job.root) == {**NOTHING, "job_id": "orders", "status": "DELETED", "was": "FINISHED"}


def test_a_job_that_was_never_started_is_a_success(tmp_path: Path, root: Storage) -> None:
    assert clean(root.uri) == {**NOTHING, "job_id": "orders"}
    assert clean(tmp_path / "no root yet") == {**NOTHING, "job_id": "orders"}
    assert not (tmp_path / "no root yet").exists()


@pytest.mark.parametrize(
    ("status", "term", "words"),
    [
        ("FAILED", "unfinished", "it has not FINISHED"),
        ("STOPPED", "unfinished", "it has not FINISHED"),
        ("RESTARTING", "abandoned", "the next run is expected"),
        ("RUNNING", "abandoned", "its driver has reported no end"),
    ],
)
def test_an_unfinished_job_is_deleted_only_with_the_matching_flag(
    root: Storage, journal: JobOf, status: str, term: str, words: str
) -> None:
    job = start_driver(journal("orders"))
    if status != "RUNNING":
        end(job, status)
    with pytest.raises(AirflowFailException, match=f"is {status} and is not deleted: {words}"):
        clean(root.uri)
    assert status_of(root) == status
    assert clean(root.uri, **{term: True})["was"] == status


def test_r16_an_unreleased_checkpoint_fails_the_clean_up_permanently(root: Storage, journal: JobOf) -> None:
    job = start_driver(journal("orders"))
    complete(job, 1, released=False)
    end(job, "FAILED")
    with pytest.raises(AirflowFailException, match="`ckpt release orders "):
        clean(root.uri, unfinished=True)
    assert clean(root.uri, unfinished=True, discard_unreleased=True)["status"] == "DELETED"


def test_a_failing_target_is_retried_and_skipped_with_keep_staged(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    staged = job.lake.with_name(f"_ckpt-{job.lake.name}")
    staged.rename(tmp_path / "away")
    staged.symlink_to(staged)  # an error, unlike a missing folder
    with pytest.raises(AirflowException, match="sink lake") as raised:
        clean(job.root)
    assert not isinstance(raised.value, AirflowFailException)
    assert clean(job.root, keep_staged=True)["left"] == ["lake"]


def test_persisted_results_are_deleted_only_with_persisted(tmp_path: Path) -> None:
    kept = PersistedJob(open_storage(tmp_path / "root"))
    with pytest.raises(AirflowFailException, match="results of clean are kept"):
        clean(tmp_path / "root", job_id=JOB)
    assert clean(tmp_path / "root", job_id=JOB, persisted=True)["status"] == "DELETED"
    assert kept.data() == []


def test_exactly_one_of_job_id_and_job_task_id_is_required() -> None:
    for given in ({"job_id": None}, {"job_task_id": "orders"}):
        with pytest.raises(InvalidTaskArgumentError, match="one of job_id and job_task_id"):
            operator("/ckpt", **given)


@pytest.mark.parametrize("flag", ["unfinished", "abandoned", "discard_unreleased", "keep_staged", "persisted"])
def test_accepting_a_loss_needs_a_boolean(root: Storage, journal: JobOf, flag: str) -> None:
    end(start_driver(journal("orders")), JobStatus.STOPPED)
    with pytest.raises(BadOptionError, match=f"{flag}='false'"):
        operator(root.uri, **{flag: "false"})
    with pytest.raises(BadOptionError, match=f"{flag}='false'"):
        CheckpointHook(None, root=root.uri).delete("orders", **{flag: "false"})  # type: ignore[arg-type]
    assert status_of(root) is JobStatus.STOPPED


# ---- the job of a task


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Set Airflow's answers about the task ``revenue``."""
    given: dict[str, Any] = {"states": {}, "xcom": None}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"r1": given["states"]})
    monkeypatch.setattr(
        XCom, "get_one", lambda **arguments: given["xcom"] if arguments["task_id"] == "revenue" else None
    )
    return given


@pytest.mark.parametrize("state", ["success", "failed"])
def test_the_job_id_comes_from_the_tasks_xcom(
    root: Storage, journal: JobOf, answers: dict[str, Any], state: str
) -> None:
    answers.update(states={"revenue": state}, xcom="shop.revenue.r1~g1")
    for job_id in ("shop.revenue.r1", "shop.revenue.r1~g1"):
        end(start_driver(journal(job_id)), "FINISHED")
    assert clean(root.uri, job_id=None, job_task_id="revenue")["job_id"] == "shop.revenue.r1~g1"
    assert status_of(root, "shop.revenue.r1") is JobStatus.FINISHED


@pytest.mark.parametrize("state", [None, "skipped", "upstream_failed", "failed"])
def test_a_task_that_started_no_job_is_a_success(root: Storage, answers: dict[str, Any], state: str | None) -> None:
    answers.update(states={} if state is None else {"revenue": state})
    assert clean(root.uri, job_id=None, job_task_id="revenue") == {**NOTHING, "job_id": None}


def test_a_task_that_does_not_run_jobs_is_refused(root: Storage, answers: dict[str, Any]) -> None:
    """A misspelled task name used to leave every job in place, and to succeed."""
    answers.update(states={"revenue": "success", "publish": "success"})
    with DAG("shop", schedule=None):
        slip = operator(root.uri, job_id=None, job_task_id="publish", task_id="slip")
        right = operator(root.uri, job_id=None, job_task_id="revenue", task_id="right")
        CheckpointedJobCleanupOperator(task_id="publish", job_id="x")
        CheckpointedSparkJobOperator(task_id="revenue", job="a.py:job")
    with pytest.raises(AirflowFailException, match="it runs no job"):
        slip.execute(context(StateStore()))
    assert right.execute(context(StateStore()))["status"] is None  # it was marked successful before it started


def test_a_mapped_task_is_refused(root: Storage, answers: dict[str, Any]) -> None:
    answers.update(states={"revenue_0": "success"})
    with pytest.raises(AirflowFailException, match="mapped"):
        clean(root.uri, job_id=None, job_task_id="revenue")


def test_a_task_that_is_not_in_the_dag_is_refused(root: Storage) -> None:
    with DAG("shop", schedule=None):
        cleaning = operator(root.uri, job_id=None, job_task_id="reveneu")
        CheckpointedJobCleanupOperator(task_id="revenue", job_id="x")
    with pytest.raises(AirflowFailException, match=r"no such task.*revenue"):
        cleaning.execute(context(StateStore()))


# ---- in a Dag


def day(root: Storage, *, job_fails: bool = False, read_fails: bool = False) -> DAG:
    with DAG(f"day_{job_fails}_{read_fails}", schedule=None, params={"job": "orders"}) as dag:

        @task
        def revenue(ti: Any = None) -> None:
            if job_fails:
                raise AirflowFailException("before its job began")
            ti.xcom_push(JOB_ID_XCOM, "orders")

        @task
        def read() -> None:
            if read_fails:
                raise AirflowFailException("no")

        named = CheckpointedJobCleanupOperator(task_id="named", job_id="{{ params.job }}", root=root.uri)
        clean = CheckpointedJobCleanupOperator(task_id="clean", job_task_id="revenue", root=root.uri)
        revenue() >> read() >> [clean.as_teardown(), named.as_teardown()]
    return dag


def test_a_teardown_deletes_the_job_after_it_was_read(run: Callable[..., Any], root: Storage, journal: JobOf) -> None:
    end(start_driver(journal("orders")), "FINISHED")
    dag_run, tasks = run(day(root))
    assert dag_run.state == "success"
    deleted = [tasks[name].xcom_pull(task_ids=name) for name in ("clean", "named")]
    assert [(result["job_id"], result["status"]) for result in deleted] == [("orders", "DELETED")] * 2
    assert status_of(root) is JobStatus.DELETED


def test_a_teardown_deletes_the_job_even_if_reading_failed(
    run: Callable[..., Any], root: Storage, journal: JobOf
) -> None:
    end(start_driver(journal("orders")), "FINISHED")
    dag_run, tasks = run(day(root, read_fails=True))
    assert (dag_run.state, tasks["clean"].state) == ("failed", "success")
    assert status_of(root) is JobStatus.DELETED


def test_a_teardown_succeeds_if_the_job_was_never_started(run: Callable[..., Any], root: Storage) -> None:
    dag_run, tasks = run(day(root, job_fails=True))
    assert (dag_run.state, tasks["read"].state) == ("failed", "upstream_failed")
    assert (tasks["clean"].state, tasks["named"].state) == ("success", "success")


def test_a_teardown_keeps_an_unfinished_job(run: Callable[..., Any], root: Storage, journal: JobOf) -> None:
    end(start_driver(journal("orders")), "FAILED")
    dag_run, tasks = run(day(root, read_fails=True))
    assert (dag_run.state, tasks["clean"].state) == ("failed", "failed")
    assert status_of(root) is JobStatus.FAILED


def test_clearing_a_task_does_not_clear_a_teardowns_upstream_task(root: Storage) -> None:
    """``as_teardown(setups=revenue)`` would make the job's task a setup, which any clear downstream clears too."""
    dag = day(root)
    assert cleared_with(dag, "read") == {"read", "clean", "named"}
    revenue: Any = dag.get_task("revenue")
    dag.get_task("clean").as_teardown(setups=revenue)
    assert cleared_with(dag, "read") == {"read", "clean", "named", "revenue"}


def cleared_with(dag: DAG, task_id: str) -> set[str]:
    """Return the tasks that Airflow's button clears: this one, and all downstream of it."""
    return set(dag.partial_subset(task_id, include_downstream=True, include_upstream=False).task_ids)


# ---- the hook


def test_the_hook_collects_the_garbage_of_a_finished_job(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    hook = CheckpointHook(None, root=str(job.root))
    garbage = hook.collect_garbage()
    assert (garbage.files, garbage.deleted, job.staged()) == (5, False, ["0001-a1-3-n3"])
    assert hook.collect_garbage("orders", delete=True).jobs == garbage.jobs
    assert (hook.collect_garbage().files, job.staged()) == (0, [])


def test_the_hook_deletes_a_job_and_no_longer_lists_it(tmp_path: Path, journal: JobOf) -> None:
    end(start_driver(journal("visits")), "FINISHED")
    job = EndedJob.run(tmp_path)
    hook = CheckpointHook(None, root=str(job.root))
    assert hook.delete("orders").staged == {"lake": 1}
    assert [state.job_id for state in hook.jobs()] == ["visits"]
    assert hook.job("orders").status is JobStatus.DELETED
    assert open_storage(job.root).list("orders") == ["journal"]
