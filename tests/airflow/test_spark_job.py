"""Whole path of the Airflow operator, with the real SparkSubmitHook. Only spark-submit is fake."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.operators.pointer import KEY
from airflow_provider_ckpt.operators.spark_job import DRIVER, CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status
from tests.support.processes import is_alive
from tests.support.waiting import wait_until

JOB_ID = "shop.orders.r1"
CONSOLE = "https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=orders/"
SECRET_REF = "spark.kubernetes.driver.secretKeyRef"
FINISHED = status("finished", "all sources ended", epoch=1, checkpoint=3, finished_operators=["history"])


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_text("")
    return path


@pytest.fixture
def make(spark_submit: FakeSparkSubmit, root: Storage, job_file: Path) -> Callable[..., CheckpointedSparkJobOperator]:
    def build(**arguments: Any) -> CheckpointedSparkJobOperator:
        given = {
            "task_id": "orders",
            "job": f"{job_file}:job",
            "root": root.uri,
            "spark_binary": spark_submit.path,
            **arguments,
        }
        return CheckpointedSparkJobOperator(**given)

    return build


def record(journal: Journal, *statuses: str, attempt: str = f"{JOB_ID}~t1", completed: int = 0) -> None:
    """Write the journal entries of a driver of this task."""
    journal.claim(attempt, Worker(), 1.0)
    for number in range(1, completed + 1):
        journal.write(CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {}))
        journal.write(CheckpointReleased(number, 3.0))
    for name in statuses:
        journal.write(StatusChanged(JobStatus(name), 4.0, "no such column: shop" if name == "FAILED" else None))


def test_the_driver_is_submitted_with_the_package_and_the_options(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage, job_file: Path
) -> None:
    spark_submit.play(status("started", epoch=1), status("checkpoint", checkpoint=3), FINISHED)
    operator = make(
        conf={"spark.x": "1"},
        packages="org:kafka:1",
        py_files="mine.zip",
        checkpoint_interval=timedelta(seconds=5),
    )
    result = operator.execute(context(StateStore()))
    assert result == {
        "job_id": JOB_ID,
        "status": "FINISHED",
        "epoch": 1,
        "checkpoint": 3,
        "released": 3,
        "finished_operators": ["history"],
        "late_rows": 0,
        "changed_files": 0,
        "unfit_rows": 0,
        "malformed_rows": 0,
    }
    (call,) = spark_submit.calls
    assert call.argv[call.argv.index("--options") - 1] == str(DRIVER)
    assert call.value("--packages") == "org:kafka:1"
    assert "spark.x=1" in call.argv
    assert call.value("--name") == JOB_ID
    package, mine = call.value("--py-files").split(",")
    assert Path(package).name.startswith("airflow_provider_ckpt-")
    assert mine == "mine.zip"
    assert call.options["job"] == f"{job_file}:job"
    assert call.options["root"] == root.uri
    assert call.options["checkpoint_interval"] == 5.0
    assert call.storage_options is None


def test_the_submitted_driver_file_exists() -> None:
    assert DRIVER.is_file()


def test_a_first_try_stores_a_pointer_before_it_submits(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage
) -> None:
    spark_submit.play(FINISHED)
    store = StateStore()
    make().execute(context(store))
    assert store.reads == 1
    first, last = store.writes[0], store.writes[-1]
    assert (first["job_id"], first["root"], first["try_number"], first["status"]) == (
        JOB_ID,
        root.uri,
        1,
        "SUBMITTED",
    )
    assert (last["status"], last["checkpoint"], last["released"]) == ("FINISHED", 3, 3)


def test_status_lines_are_logged_as_sentences_and_others_unchanged(
    make: Any, spark_submit: FakeSparkSubmit, capfd: pytest.CaptureFixture[str]
) -> None:
    spark_submit.play("INFO SparkContext: hello", FINISHED)
    make().execute(context(StateStore()))
    logged = capfd.readouterr().out
    assert "] all sources ended" in logged
    assert "] INFO SparkContext: hello" in logged
    assert "CKPT {" not in logged


def test_quiet_lines_update_the_pointer_without_a_log_line(
    make: Any, spark_submit: FakeSparkSubmit, capfd: pytest.CaptureFixture[str]
) -> None:
    quiet = status("checkpoint", "checkpoint 8 completed", checkpoint=8, released=7, quiet=True)
    spark_submit.play(status("started", epoch=1), quiet, exit=1)
    store = StateStore()
    with pytest.raises(AirflowException):
        make().execute(context(store))
    assert "checkpoint 8" not in capfd.readouterr().out
    assert (store.values[KEY]["checkpoint"], store.values[KEY]["released"]) == (8, 7)


@pytest.mark.parametrize(("code", "kind"), [(2, "refused"), (3, "failed"), (4, "fenced")])
def test_a_refusal_a_permanent_failure_and_a_fence_are_not_retried(
    make: Any, spark_submit: FakeSparkSubmit, code: int, kind: str
) -> None:
    spark_submit.play(status(kind, "operator 'live' has no uid"), exit=code)
    store = StateStore()
    with pytest.raises(AirflowFailException, match="operator 'live' has no uid"):
        make().execute(context(store))
    assert store.values[KEY]["status"] == ("FENCED" if kind == "fenced" else "FAILED")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([status("failed", "executor lost")], 1),
        ([], 3),  # exit code of a JVM out of memory (ExitOnOutOfMemoryError), not the driver's own 3
        ([status("running")], 3),
        ([], 137),
        ([], 2),
    ],
)
def test_any_other_end_is_retried(make: Any, spark_submit: FakeSparkSubmit, lines: Sequence[str], code: int) -> None:
    spark_submit.play(*lines, exit=code)
    with pytest.raises(AirflowException) as caught:
        make().execute(context(StateStore()))
    assert not isinstance(caught.value, AirflowFailException)
    assert "executor lost" in str(caught.value) or f"spark-submit ended with {code}" in str(caught.value)


def test_exit_code_0_without_a_status_line_fails_the_task(make: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(status("running"))
    with pytest.raises(AirflowException, match=r"the journal says that job shop\.orders\.r1 is unknown"):
        make().execute(context(StateStore()))


def test_the_result_without_status_lines_comes_from_the_journal(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], root: Storage
) -> None:
    spark_submit.play(wait=True)
    task = RunningTask(make(), spark_submit, StateStore())
    record(journal(JOB_ID), "RUNNING", "STOPPED", completed=2)  # a driver in a cluster wrote them
    (spark_submit.folder / "go").write_text("")
    result = task.end()
    assert (result["status"], result["checkpoint"], result["released"]) == ("STOPPED", 2, 2)


def test_the_stop_of_an_earlier_run_is_not_a_success(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    """spark-submit in cluster mode does not wait for its application."""
    record(journal("shared"), "RUNNING", "STOPPED", attempt="shop.orders.r0~t1", completed=2)
    spark_submit.play()
    with pytest.raises(AirflowException, match="shared is STOPPED, as it was before"):
        make(job_id="shared").execute(context(StateStore()))


def test_a_retry_logs_where_it_resumes_and_does_not_restore_again(
    make: Any,
    spark_submit: FakeSparkSubmit,
    journal: Callable[[str], Journal],
    capfd: pytest.CaptureFixture[str],
) -> None:
    store = StateStore()
    spark_submit.play(status("started", epoch=1), status("failed", "executor lost"), exit=1)
    with pytest.raises(AirflowException):
        make(restore="/old/checkpoints/chk-4").execute(context(store))
    record(journal(JOB_ID), "RUNNING", "RESTARTING", completed=2)
    spark_submit.play(FINISHED)
    make(restore="/old/checkpoints/chk-4").execute(context(store, try_number=2))
    logged = capfd.readouterr().out
    assert "Resuming job shop.orders.r1 (RESTARTING) from checkpoint 2; finished operators: none" in logged
    assert [call.options["restore"] for call in spark_submit.calls] == ["/old/checkpoints/chk-4", "latest"]
    assert [call.options["job_id"] for call in spark_submit.calls] == [JOB_ID, JOB_ID]


def test_a_retry_restores_if_no_driver_has_claimed_the_job(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    record(journal("shared"), "RUNNING", "STOPPED", attempt="shop.orders.r0~t1", completed=5)
    store = StateStore()
    spark_submit.play(exit=1)
    with pytest.raises(AirflowException):
        make(job_id="shared", restore="/old/chk-4").execute(context(store))
    spark_submit.play(FINISHED)
    make(job_id="shared", restore="/old/chk-4").execute(context(store, try_number=2))
    assert [call.options["restore"] for call in spark_submit.calls] == ["/old/chk-4", "/old/chk-4"]


def test_a_retry_resumes_the_first_trys_job_though_its_template_changed(
    make: Any,
    spark_submit: FakeSparkSubmit,
    journal: Callable[[str], Journal],
    capfd: pytest.CaptureFixture[str],
) -> None:
    store = StateStore()
    spark_submit.play(status("started", epoch=1), exit=137)
    with pytest.raises(AirflowException):
        make(job_id="at_10_00").execute(context(store))
    record(journal("at_10_00"), "RUNNING", "RESTARTING", completed=2)
    spark_submit.play(FINISHED)
    assert make(job_id="at_10_05").execute(context(store, try_number=2))["job_id"] == "at_10_00"
    assert [call.options["job_id"] for call in spark_submit.calls] == ["at_10_00", "at_10_00"]
    assert "job_id is at_10_05 now, but an earlier try of this task began job at_10_00" in capfd.readouterr().out
    spark_submit.play(FINISHED)
    assert make(job_id="at_10_09").execute(context(store, try_number=3, max_tries=4))["job_id"] == "at_10_09"


def test_a_retry_may_use_another_job_id_if_no_job_was_started(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    record(journal("misspelt"), "RUNNING", "STOPPED", attempt="shop.orders.r0~t1")
    store = StateStore()
    spark_submit.play(exit=1)
    with pytest.raises(AirflowException):
        make(job_id="misspelt").execute(context(store))
    spark_submit.play(FINISHED)
    assert make(job_id="meant").execute(context(store, try_number=2))["job_id"] == "meant"


def test_a_retry_under_another_root_does_not_restart_the_job(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage, journal: Callable[[str], Journal], tmp_path: Path
) -> None:
    store = StateStore()
    spark_submit.play(exit=137)
    with pytest.raises(AirflowException):
        make().execute(context(store))
    spark_submit.play(exit=137)
    # no job was started, so the root may be corrected
    with pytest.raises(AirflowException, match="spark-submit ended"):
        make(root=f"{tmp_path}/other").execute(context(store, try_number=2))
    with pytest.raises(AirflowException, match="spark-submit ended"):
        spark_submit.play(exit=137)
        make().execute(context(store, try_number=3))
    record(journal(JOB_ID), "RUNNING", "RESTARTING", completed=2)
    with pytest.raises(AirflowFailException, match=f"under the root {root.uri}"):
        make(root=f"{tmp_path}/other").execute(context(store, try_number=3))
    spark_submit.play(FINISHED)
    make(root=f"{root.uri}/").execute(context(store, try_number=3))  # the same root
    assert len(spark_submit.calls) == 4


def test_a_retry_does_not_take_the_job_from_another_dag_run(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    """Like a fenced driver, because the other owner would be fenced and fail permanently."""
    store = StateStore()
    spark_submit.play(status("started", epoch=1), exit=137)
    with pytest.raises(AirflowException):
        make(job_id="shared").execute(context(store))
    record(journal("shared"), "RUNNING")
    record(journal("shared"), "RUNNING", attempt="shop.orders.r2~t1")
    with pytest.raises(AirflowFailException, match=r"shop\.orders\.r2~t1 has taken it over \(epoch 2\)"):
        make(job_id="shared").execute(context(store, try_number=2))
    assert len(spark_submit.calls) == 1
    spark_submit.play(FINISHED)
    make(job_id="shared").execute(context(store, try_number=2, max_tries=3))  # a clear
    record(journal("shared"), "RESTARTING", attempt="shop.orders.r2~t1")
    spark_submit.play(FINISHED)
    make(job_id="shared").execute(context(store, try_number=3, max_tries=3))  # no driver has the job


def test_a_retry_without_the_journal_does_not_restart_the_job(make: Any, spark_submit: FakeSparkSubmit) -> None:
    """For example a share that is not mounted on this worker."""
    store = StateStore()
    spark_submit.play(status("started", epoch=1), exit=137)
    with pytest.raises(AirflowException):
        make().execute(context(store))
    with pytest.raises(AirflowException, match="there is nothing of it under") as raised:
        make().execute(context(store, try_number=2))
    assert not isinstance(raised.value, AirflowFailException)
    spark_submit.play(FINISHED)
    make().execute(context(store, try_number=2, max_tries=3))  # a clear
    assert len(spark_submit.calls) == 2


@pytest.fixture
def killed_store(make: Any, spark_submit: FakeSparkSubmit) -> StateStore:
    """Return the store after a first try that claimed its job and was killed."""
    store = StateStore()
    spark_submit.play(status("started", epoch=1), exit=137)
    with pytest.raises(AirflowException):
        make().execute(context(store))
    return store


def test_a_retry_of_a_failed_job_fails_without_submitting(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], killed_store: StateStore
) -> None:
    record(journal(JOB_ID), "RUNNING", "FAILED")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        make().execute(context(killed_store, try_number=2))
    assert len(spark_submit.calls) == 1


def test_a_retry_of_a_finished_job_succeeds_without_submitting(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], killed_store: StateStore
) -> None:
    record(journal(JOB_ID), "RUNNING", "FINISHED", completed=4)
    result = make().execute(context(killed_store, try_number=2))
    assert (result["status"], result["released"]) == ("FINISHED", 4)
    assert killed_store.values[KEY]["status"] == "FINISHED"
    assert len(spark_submit.calls) == 1


def test_a_cleared_task_resumes_its_job_even_if_it_has_failed(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    store = StateStore()
    spark_submit.play(status("started", epoch=1), status("failed", "no such column"), exit=3)
    with pytest.raises(AirflowFailException):
        make().execute(context(store))
    record(journal(JOB_ID), "RUNNING", "FAILED")
    spark_submit.play(FINISHED)
    make().execute(context(store, try_number=2, max_tries=3))
    assert spark_submit.calls[1].options["job_id"] == JOB_ID


def test_a_cleared_task_can_restart_under_a_new_job_id_for_all_its_retries(
    make: Any, spark_submit: FakeSparkSubmit
) -> None:
    store = StateStore()
    for exit_code in (0, 1, 0, 0):
        spark_submit.play(*([FINISHED] if exit_code == 0 else []), exit=exit_code)
    operator = make(on_clear="restart")
    operator.execute(context(store))
    with pytest.raises(AirflowException):
        operator.execute(context(store, try_number=2, max_tries=3))
    operator.execute(context(store, try_number=3, max_tries=3))
    operator.execute(context(store, try_number=4, max_tries=5))
    ids = [call.options["job_id"] for call in spark_submit.calls]
    assert ids == [JOB_ID, f"{JOB_ID}~g1", f"{JOB_ID}~g1", f"{JOB_ID}~g2"]


def finish(journal: Journal, attempt: str) -> None:
    record(journal, "RUNNING", "FINISHED", attempt=attempt, completed=1)


def test_a_task_whose_job_was_deleted_fails_permanently(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], root: Storage
) -> None:
    """If a clear resumed a deleted job, or started it again under its id, its rows would be released twice."""
    store = StateStore()
    spark_submit.play(FINISHED)
    make().execute(context(store))
    finish(journal(JOB_ID), f"{JOB_ID}~t1")
    JobClient(root, JOB_ID).delete()
    for cleared in (context(store, try_number=2, max_tries=3), context(StateStore())):
        with pytest.raises(AirflowFailException, match=r"is DELETED since .* use another job id .*on_clear='restart'"):
            make().execute(cleared)
    assert len(spark_submit.calls) == 1


def test_a_cleared_task_of_a_deleted_job_restarts_under_a_new_id(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], root: Storage
) -> None:
    finish(journal(JOB_ID), f"{JOB_ID}~t1")
    JobClient(root, JOB_ID).delete()
    spark_submit.play(FINISHED)
    make(on_clear="restart").execute(context(StateStore()))
    assert spark_submit.calls[0].options["job_id"] == f"{JOB_ID}~g1"


def test_a_recreated_dag_run_restarts_under_a_new_job_id(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    """Airflow deletes the pointer with the Dag run, and a backfill creates a run of the same name."""
    finish(journal(JOB_ID), f"{JOB_ID}~t1")
    finish(journal(f"{JOB_ID}~g1"), f"{JOB_ID}~t2")
    spark_submit.play(FINISHED)
    store = StateStore()
    make(on_clear="restart").execute(context(store))
    assert spark_submit.calls[0].options["job_id"] == f"{JOB_ID}~g2"
    assert store.values[KEY]["generation"] == 2


def test_a_clear_skips_job_ids_that_have_already_run(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    finish(journal(f"{JOB_ID}~g1"), f"{JOB_ID}~t1")
    store = StateStore()
    for _ in range(2):
        spark_submit.play(FINISHED)
    make(on_clear="restart").execute(context(store))
    make(on_clear="restart").execute(context(store, try_number=2, max_tries=3))
    assert [call.options["job_id"] for call in spark_submit.calls] == [JOB_ID, f"{JOB_ID}~g2"]


def test_a_shared_job_id_is_not_changed_by_on_clear_restart(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    record(journal("shared"), "RUNNING", "STOPPED", attempt="shop.orders.r0~t1", completed=5)
    spark_submit.play(FINISHED)
    make(job_id="shared", on_clear="restart").execute(context(StateStore()))
    assert spark_submit.calls[0].options["job_id"] == "shared"


def test_a_clear_of_a_finished_job_logs_that_nothing_runs_again(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal], capfd: pytest.CaptureFixture[str]
) -> None:
    store = StateStore()
    for _ in range(2):
        spark_submit.play(FINISHED)
    make().execute(context(store))
    finish(journal(JOB_ID), f"{JOB_ID}~t1")
    make().execute(context(store, try_number=2, max_tries=3))
    assert f"Job {JOB_ID} has FINISHED: nothing runs again" in capfd.readouterr().out


def test_a_clear_deletes_the_id_of_the_ended_cluster_driver(make: Any, spark_submit: FakeSparkSubmit) -> None:
    store = StateStore()
    spark_submit.play(FINISHED)
    spark_submit.play(FINISHED)
    make().execute(context(store))
    store.values["spark_job_id"] = "driver-1"
    make().execute(context(store, try_number=2, max_tries=3))
    assert "spark_job_id" not in store.values


def test_only_the_driver_gets_the_secrets(
    make: Any,
    spark_submit: FakeSparkSubmit,
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = {"key": "AKIA-key-1", "client_kwargs": {"aws_session_token": "tok-en-2"}}
    connection = {"conn_type": "ckpt", "host": root.uri, "extra": {"storage_options": options}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps(connection))
    spark_submit.play("spark prints AKIA-key-1", status("failed", "tok-en-2 was refused"), exit=1)
    store, operator = StateStore(), make(root=None)
    with pytest.raises(AirflowException) as caught:
        operator.execute(context(store))
    (call,) = spark_submit.calls
    assert json.loads(call.storage_options or "") == options
    rendered = json.dumps({name: getattr(operator, name) for name in operator.template_fields}, default=str)
    logged = capfd.readouterr().out
    for seen in (logged, str(caught.value), json.dumps(store.writes), " ".join(call.argv), rendered):
        assert "AKIA-key-1" not in seen
        assert "tok-en-2" not in seen
    assert "spark prints ***" in logged


@pytest.mark.parametrize("master", ["yarn", "k8s://https://cluster"])
def test_a_client_mode_driver_gets_storage_options_in_its_environment(
    master: str, make: Any, spark_submit: FakeSparkSubmit, root: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    if master.startswith("k8s"):
        pytest.importorskip("airflow.providers.cncf.kubernetes")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    connection = {"conn_type": "ckpt", "host": root.uri, "extra": {"storage_options": {"token": "tok-en-2"}}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps(connection))
    spark_submit.play(FINISHED)
    make(root=None, env_vars={"MINE": "1"}).execute(context(StateStore()))
    (call,) = spark_submit.calls
    assert json.loads(call.storage_options or "") == {"token": "tok-en-2"}
    assert "tok-en-2" not in " ".join(call.argv)
    assert [word for word in call.argv if "MINE=1" in word]  # a user's setting stays as the Spark provider has it


@pytest.mark.parametrize("master", ["yarn", "k8s://https://cluster"])
def test_the_environment_of_a_cluster_driver_is_masked_in_the_log(
    master: str,
    make: Any,
    spark_submit: FakeSparkSubmit,
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if master.startswith("k8s"):
        pytest.importorskip("airflow.providers.cncf.kubernetes")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    endpoint = {"endpoint_url": "http://minio:9000", "anon": True}
    connection = {"conn_type": "ckpt", "host": root.uri, "extra": {"storage_options": endpoint}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps(connection))
    spark_submit.play(status("failed", "x"), exit=1)
    with pytest.raises(AirflowException):
        make(root=None, deploy_mode="cluster", durable=False).execute(context(StateStore()))
    (call,) = spark_submit.calls
    prefix = "spark.kubernetes.driverEnv" if master.startswith("k8s") else "spark.yarn.appMasterEnv"
    given = dict(word.removeprefix(f"{prefix}.").split("=", 1) for word in call.argv if word.startswith(prefix))
    assert json.loads(given["CKPT_STORAGE_OPTIONS"]) == endpoint
    logged = capfd.readouterr().out
    assert "CKPT_STATUS_TOKEN=***" in logged
    assert given["CKPT_STATUS_TOKEN"] not in logged


@pytest.mark.parametrize("master", ["yarn", "k8s://https://cluster"])
def test_secret_storage_options_are_refused_in_cluster_mode(
    master: str, make: Any, spark_submit: FakeSparkSubmit, root: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections were refused there, and the secret key of S3 was on the command line and in Spark's UI."""
    if master.startswith("k8s"):
        pytest.importorskip("airflow.providers.cncf.kubernetes")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    options = {"secret": "t0psecret", "client_kwargs": {"aws_session_token": "t0psecret"}, "anon": False}
    connection = {"conn_type": "ckpt", "host": root.uri, "extra": {"storage_options": options}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps(connection))
    given = {"root": None, "deploy_mode": "cluster", "durable": False}
    with pytest.raises(AirflowFailException, match=r"\['client_kwargs', 'secret'\] may be secret") as caught:
        make(**given).execute(context(StateStore()))
    assert "t0psecret" not in str(caught.value)
    assert "env_vars={'CKPT_STORAGE_OPTIONS': '{}'}" in str(caught.value)
    assert spark_submit.calls == []
    ways = (
        {"env_vars": {"CKPT_STORAGE_OPTIONS": "{}"}},
        {"conf": {f"{SECRET_REF}.CKPT_STORAGE_OPTIONS": "ckpt:options"}},
    )
    for way in ways:
        spark_submit.play(status("failed", "x"), exit=1)
        with pytest.raises(AirflowException, match="Job "):
            make(**given, **way).execute(context(StateStore()))
        assert "t0psecret" not in " ".join(spark_submit.calls[-1].argv)
    assert len(spark_submit.calls) == len(ways)


def test_a_relative_job_file_is_searched_in_the_working_directory(
    make: Any, spark_submit: FakeSparkSubmit, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job_file.parent)
    spark_submit.play(FINISHED)
    make(job="orders.py:job").execute(context(StateStore()))
    assert spark_submit.calls[0].options["job"] == f"{job_file}:job"
    with pytest.raises(AirflowFailException, match=r"looked for .*nowhere\.py"):
        make(job="nowhere.py:job").execute(context(StateStore()))


def test_a_module_reference_is_left_to_the_driver(make: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(FINISHED)
    make(job="pipelines.orders:job").execute(context(StateStore()))
    assert spark_submit.calls[0].options["job"] == "pipelines.orders:job"


@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint_interval": "soon"},
        {"stop_at": "None"},
        {"stop_at": ""},
        {"stop_after": "1h", "drain_after": "2h"},
        {"mode": "fast"},
        {"job_id": "a/b"},
        {"job": "orders"},
    ],
)
def test_an_invalid_rendered_argument_fails_the_task_permanently(make: Any, arguments: dict[str, Any]) -> None:
    operator = make(**dict.fromkeys(arguments, "{{ params.x }}"))
    for name, value in arguments.items():
        setattr(operator, name, value)
    with pytest.raises(AirflowFailException):
        operator.execute(context(StateStore()))


@pytest.mark.parametrize("arguments", [{"application": "x.py"}, {"application_args": ["x"]}, {"on_clear": "again"}])
def test_a_meaningless_argument_is_refused_when_the_dag_is_parsed(make: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidTaskArgumentError):
        make(**arguments)


def test_a_named_connection_must_exist(make: Any) -> None:
    with pytest.raises(AirflowFailException, match="nowhere"):
        make(ckpt_conn_id="nowhere").execute(context(StateStore()))


def test_a_task_without_root_and_connection_fails_permanently(make: Any) -> None:
    with pytest.raises(AirflowFailException, match="no checkpoint root"):
        make(root=None).execute(context(StateStore()))


class RunningTask:
    """Task that executes in a thread. ``ended``: the exception or result.

    The constructor returns once spark-submit waits and the operator knows the driver's ``epoch`` (None if the driver
    reports none).
    """

    def __init__(
        self,
        operator: CheckpointedSparkJobOperator,
        spark_submit: FakeSparkSubmit,
        store: StateStore,
        epoch: int | None = None,
    ) -> None:
        self.ended: list[Any] = []
        self._operator, self._context = operator, context(store)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until((spark_submit.folder / "waiting").exists, "spark-submit")
        wait_until(lambda: store.values[KEY].get("epoch") == epoch, f"epoch {epoch} in the pointer")

    def _run(self) -> None:
        try:
            self.ended.append(self._operator.execute(self._context))
        except AirflowException as error:
            self.ended.append(error)

    def end(self) -> Any:
        wait_until(lambda: not self._thread.is_alive(), "the end of the task")
        (ended,) = self.ended
        return ended


def _requests(root: Storage) -> list[dict[str, Any]]:
    return [json.loads(root.read(f"{JOB_ID}/requests/{name}")) for name in root.list(f"{JOB_ID}/requests")]


def test_a_kill_requests_a_stop_and_then_kills_the_driver(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage
) -> None:
    spark_submit.play(status("started", epoch=6), wait=True)
    operator = make(stop_grace=0.1)
    task = RunningTask(operator, spark_submit, StateStore(), epoch=6)
    operator.on_kill()
    ended = task.end()
    assert not isinstance(ended, AirflowFailException)
    assert "its driver was killed. A retry begins without a checkpoint" in str(ended)
    (request,) = wait_until(lambda: _requests(root), "the request")  # the request may take longer than the grace period
    assert (request["kind"], request["epoch"], request["exit_if_it_fails"]) == ("stop", 6, True)
    assert not is_alive(spark_submit.calls[0].pid)


def test_a_killed_task_is_retried_after_its_driver_took_a_savepoint(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage, journal: Callable[[str], Journal]
) -> None:
    """A worker shut down. The job must resume, so STOPPED is no success here."""
    last = status("stopped", epoch=6, checkpoint=9, released=9)
    spark_submit.play(status("started", epoch=6), wait=True, after=[last])
    spark_submit.play(status("resumed", epoch=7), status("stopped", epoch=7, checkpoint=12))
    store, operator = StateStore(), make(stop_grace=60)
    task = RunningTask(operator, spark_submit, store, epoch=6)

    def driver() -> None:
        wait_until(lambda: bool(_requests(root)), "the request")
        (spark_submit.folder / "go").write_text("")

    driving = threading.Thread(target=driver)
    driving.start()
    operator.on_kill()
    ended = task.end()
    driving.join()
    assert isinstance(ended, AirflowException)
    assert not isinstance(ended, AirflowFailException)
    assert "took a savepoint and left. A retry resumes from checkpoint 9" in str(ended)
    assert store.values[KEY]["status"] == "STOPPED"
    record(journal(JOB_ID), "RUNNING", "STOPPED", completed=9)
    result = make().execute(context(store, try_number=2))
    assert (result["status"], result["checkpoint"]) == ("STOPPED", 12)


def test_a_journaled_stop_is_stored_before_the_driver_ends(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage, journal: Callable[[str], Journal]
) -> None:
    """Spark takes longer to end than Airflow leaves a killed task, and the last line is never read."""
    driver = journal(JOB_ID)
    driver.claim("first", Worker(), 1.0)
    driver.write(StatusChanged(JobStatus.RUNNING, 1.0))
    spark_submit.play(status("started", epoch=1), wait=True)
    store, operator = StateStore(), make(stop_grace=60)
    task = RunningTask(operator, spark_submit, store, epoch=1)

    def stop() -> None:
        wait_until(lambda: bool(_requests(root)), "the request")
        driver.write(StatusChanged(JobStatus.STOPPED, 2.0))
        wait_until(lambda: store.values[KEY]["status"] == "STOPPED", "the end in the pointer")
        (spark_submit.folder / "go").write_text("")

    stopping = threading.Thread(target=stop)
    stopping.start()
    operator.on_kill()
    stopping.join()
    assert isinstance(task.end(), AirflowException)
    assert store.values[KEY]["status"] == "STOPPED"


def test_a_job_that_finishes_during_a_kill_is_a_success(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage
) -> None:
    spark_submit.play(status("started", epoch=1), wait=True, after=[FINISHED])
    operator = make(stop_grace=60)
    task = RunningTask(operator, spark_submit, StateStore(), epoch=1)
    (spark_submit.folder / "go").write_text("")
    operator.on_kill()
    assert task.end()["status"] == "FINISHED"


def test_a_kill_before_the_driver_has_the_job_does_not_wait(
    make: Any, spark_submit: FakeSparkSubmit, root: Storage
) -> None:
    spark_submit.play(wait=True)
    operator = make(stop_grace=600)
    task = RunningTask(operator, spark_submit, StateStore())
    operator.on_kill()
    assert "was killed" in str(task.end())
    assert root.list(f"{JOB_ID}/requests") == []


def test_a_second_kill_sends_no_second_request(make: Any, spark_submit: FakeSparkSubmit, root: Storage) -> None:
    spark_submit.play(status("started", epoch=6), wait=True)
    operator = make(stop_grace=0.1)
    task = RunningTask(operator, spark_submit, StateStore(), epoch=6)
    operator.on_kill()
    operator.on_kill()
    task.end()
    assert len(wait_until(lambda: _requests(root), "the request")) == 1


def test_spark_submit_runs_in_its_own_process_group(make: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(status("started", epoch=6), wait=True)
    operator = make(stop_grace=0)
    task = RunningTask(operator, spark_submit, StateStore(), epoch=6)
    pid = spark_submit.calls[0].pid
    assert os.getpgid(pid) == pid != os.getpgid(0)
    operator.on_kill()
    task.end()


def test_a_missing_spark_connection_is_refused(
    make: Any, spark_submit: FakeSparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    store = StateStore()
    with pytest.raises(AirflowFailException, match=r"'spark_default', which says where Spark runs, does not exist"):
        make().execute(context(store))
    assert spark_submit.calls == []
    assert store.writes == [], "nothing was begun"


def test_the_job_id_is_pushed_before_the_job_runs(make: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(exit=1)
    run = context(StateStore())
    with pytest.raises(AirflowException):
        make().execute(run)
    assert run["ti"].pushed == {JOB_ID_XCOM: JOB_ID}


def test_parameters_reach_the_driver(make: Any, spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(FINISHED)
    make(job_params={"day": "2026-01-01"}).execute(context(StateStore()))
    assert spark_submit.calls[0].options["params"] == {"day": "2026-01-01"}


def test_a_failure_has_the_drivers_message_and_the_log_no_options(
    make: Any, spark_submit: FakeSparkSubmit, capfd: pytest.CaptureFixture[str]
) -> None:
    spark_submit.play(status("failed", "ValueError: no such shop"), exit=1)
    with pytest.raises(AirflowException) as caught:
        make().execute(context(StateStore()))
    assert str(caught.value).startswith(f"Job {JOB_ID}: ValueError: no such shop")
    assert caught.value.__cause__ is None
    assert "run-options" not in capfd.readouterr().out


def test_a_clear_after_lowering_retries_is_still_a_clear(
    make: Any, spark_submit: FakeSparkSubmit, journal: Callable[[str], Journal]
) -> None:
    """The clear leaves max_tries unchanged, so only clear_number shows it.

    Otherwise a permanently failed job could never be resumed.
    """
    store = StateStore()
    spark_submit.play(status("started", epoch=1), status("failed", "no such column"), exit=3)
    with pytest.raises(AirflowFailException):
        make(retries=1).execute(context(store, max_tries=1))
    record(journal(JOB_ID), "RUNNING", "FAILED")
    spark_submit.play(FINISHED)
    make(retries=0).execute(context(store, try_number=2, max_tries=1, clear_number=1))
    assert spark_submit.calls[1].options["resume_failed"] is True


def test_a_kill_before_the_submit_does_nothing(make: Any, spark_submit: FakeSparkSubmit, root: Storage) -> None:
    before = root.files("")
    make().on_kill()
    assert (root.files(""), spark_submit.calls) == (before, [])


def test_a_tasks_links_remain_after_its_end(make: Any, spark_submit: FakeSparkSubmit) -> None:
    places: dict[str, Any] = {"spark_ui": "http://driver:4040", "outputs": {"lake": "s3://lake/orders"}}
    spark_submit.play(status("started", epoch=1, **places), FINISHED)
    operator, running = make(), context(StateStore())
    operator.execute(running)
    links = {
        extra_link.xcom_key: extra_link.get_link(operator, ti_key=running["ti"])
        for extra_link in operator.operator_extra_links
    }
    assert links == {"_link_SparkUILink": "http://driver:4040", "_link_OutputLink": CONSOLE}
    assert {key: running["ti"].pushed[key] for key in links} == links


def test_a_task_that_has_not_started_has_no_links(make: Any) -> None:
    operator, ti = make(), context(StateStore())["ti"]
    assert [extra_link.name for extra_link in operator.operator_extra_links] == ["Spark UI", "Output"]
    assert [extra_link.get_link(operator, ti_key=ti) for extra_link in operator.operator_extra_links] == ["", ""]


def test_the_task_follows_an_upgraded_driver(make: Any, spark_submit: FakeSparkSubmit) -> None:
    """The job continues as another version in another epoch. The last status line and the pointer show that epoch."""
    lines = [status("started", epoch=1), status("running", epoch=1), status("reconfigured", epoch=1)]
    again = [status("resumed", epoch=2), status("running", epoch=2)]
    done = status("finished", "all sources ended", epoch=2, checkpoint=7)
    spark_submit.play(*lines, *again, done)
    store = StateStore()
    result = make().execute(context(store))
    assert (result["status"], result["epoch"], result["checkpoint"]) == ("FINISHED", 2, 7)
    assert store.values[KEY]["epoch"] == 2
    assert len(spark_submit.calls) == 1


def _file(folder: Path) -> str:
    (folder / "root-file").write_text("")
    return f"{folder}/root-file"


def _inside_another(folder: Path) -> str:
    open_root(open_storage(str(folder / "outer")))
    return f"{folder}/outer/inner"


def _above_another(folder: Path) -> str:
    open_root(open_storage(str(folder / "above" / "inner")))
    return f"{folder}/above"


@pytest.mark.parametrize(
    ("root_of", "problem"),
    [
        (_file, "Not a directory"),
        (_inside_another, "outer"),
        (_above_another, "inner"),
        (lambda folder: f"{folder}/a[b]", r"\[ \]"),
        (lambda folder: "memory://x", "memory://x"),
    ],
)
def test_an_unusable_root_is_refused_before_spark_submit_starts(
    make: Any, spark_submit: FakeSparkSubmit, tmp_path: Path, root_of: Callable[[Path], str], problem: str
) -> None:
    spark_submit.play(FINISHED)
    with pytest.raises(AirflowFailException, match=problem):
        make(root=root_of(tmp_path)).execute(context(StateStore()))
    assert spark_submit.calls == []
