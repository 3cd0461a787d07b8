"""CheckpointedSparkJobOperator(deferrable=True), with the real SparkSubmitHook.

spark-submit and the cluster are fakes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider_hook
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout, TaskDeferred

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks import kubernetes_drivers
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.operators.pointer import KEY
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers import spark_application
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from tests.airflow.cluster_api import NOT_FOUND, POD_ID, YARN_ID, ClusterApi, PlainCoreV1Api, app, pod, pods
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import FakeSparkSubmit, StateStore, context

JOB_ID = "shop.orders.r1"
SUBMITTED_LINE = f"INFO YarnClientImpl: Submitted application {YARN_ID}"
DEPLOYED = (
    "INFO LoggingPodStatusWatcherImpl: Deployed Spark application orders with application ID "
    f"{POD_ID} and submission ID jobs:orders-8f-driver into Kubernetes"
)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def to(host: str, **extra: str) -> None:
        connection = {"conn_type": "spark", "host": host, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    return to


@pytest.fixture
def cluster() -> Iterator[ClusterApi]:
    with ClusterApi().serving() as api:
        yield api


@pytest.fixture
def yarn(cluster: ClusterApi, spark_submit: FakeSparkSubmit, connect: Callable[..., None]) -> ClusterApi:
    connect("yarn", **{"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.url})
    cluster.answer({"app": app("ACCEPTED")})
    return cluster


@pytest.fixture
def kubernetes(
    cluster: ClusterApi, spark_submit: FakeSparkSubmit, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> ClusterApi:
    connect("k8s://https://cluster", **{"deploy-mode": "cluster", "namespace": "jobs"})
    monkeypatch.setattr(
        provider_hook, "kube_client", SimpleNamespace(), raising=False
    )  # the Kubernetes provider is not installed
    monkeypatch.setattr(kubernetes_drivers, "_configured", lambda: PlainCoreV1Api(cluster.url))
    cluster.answer(pods(pod("Pending")))
    return cluster


@pytest.fixture
def make(spark_submit: FakeSparkSubmit, root: Storage) -> Callable[..., CheckpointedSparkJobOperator]:
    def build(**arguments: Any) -> CheckpointedSparkJobOperator:
        given = {
            "task_id": "orders",
            "job": "pipelines.orders:job",
            "root": root.uri,
            "spark_binary": spark_submit.path,
            "deferrable": True,
            **arguments,
        }
        return CheckpointedSparkJobOperator(**given)

    return build


def deferred(operator: CheckpointedSparkJobOperator, running: Any, event: dict[str, Any] | None = None) -> TaskDeferred:
    """Execute the task, or resume it with ``event``, and return its deferral."""
    with pytest.raises(TaskDeferred) as caught:
        if event is None:
            operator.execute(running)
        else:
            operator.execute_complete(running, event)
    return caught.value


def submission(deferral: TaskDeferred) -> dict[str, Any]:
    serialized: dict[str, Any] = deferral.trigger.serialize()[1]["submission"]
    return serialized


def driver_in_cluster(journal: Journal, attempt: str = f"{JOB_ID}~t1", application_id: str = YARN_ID) -> Journal:
    journal.claim(attempt, Worker(application_id=application_id), 1.0)
    journal.write(StatusChanged(JobStatus.RUNNING, 1.0))
    return journal


@pytest.fixture
def deferred_store(make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi) -> StateStore:
    """Return the store of a task that submitted its driver and was deferred."""
    store = StateStore()
    spark_submit.play(SUBMITTED_LINE)
    deferred(make(), context(store))
    yarn.answer({"app": app("RUNNING")})
    return store


# ---- submit


def test_the_task_submits_its_driver_to_yarn_and_is_deferred(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi, root: Storage
) -> None:
    spark_submit.play(SUBMITTED_LINE)
    running = context(store := StateStore())
    deferral = deferred(make(conf={"spark.yarn.tags": "team"}, execution_timeout=timedelta(hours=2)), running)
    (call,) = spark_submit.calls
    first, last = store.writes[0], store.writes[-1]
    tag = first["submission"]["tag"]
    assert call.value("--deploy-mode") == "cluster"
    assert "spark.yarn.submit.waitAppCompletion=false" in call.argv
    assert f"spark.yarn.tags=team,{tag}" in call.argv
    assert "spark.yarn.maxAppAttempts=1" in call.argv
    assert first["submission"]["application_id"] is None, "noted before it is submitted"
    assert last["application_id"] == last["submission"]["application_id"] == YARN_ID
    assert (last["submission"]["is_submitted"], last["submission"]["is_seen"]) == (True, True)
    assert (deferral.method_name, deferral.timeout) == ("execute_complete", timedelta(hours=2))
    assert deferral.trigger.serialize()[1] == {
        "job_id": JOB_ID,
        "submission": last["submission"],
        "spark_conn_id": "spark_default",
        "ckpt_conn_id": "ckpt_default",
        "root": root.uri,
        "leaving": False,
        "poll_interval": 10.0,
        "status_interval": 60.0,
    }
    assert running["ti"].pushed == {JOB_ID_XCOM: JOB_ID}
    assert call.options["attempt"] == last["submission"]["attempt"]


def test_the_task_submits_its_driver_to_kubernetes_and_is_deferred(
    make: Any, spark_submit: FakeSparkSubmit, kubernetes: ClusterApi
) -> None:
    spark_submit.play(DEPLOYED)
    submitted = submission(deferred(make(), context(StateStore())))
    (call,) = spark_submit.calls
    assert "spark.kubernetes.submission.waitAppCompletion=false" in call.argv
    assert f"spark.kubernetes.driver.label.ckpt-submission={submitted['tag']}" in call.argv
    assert (submitted["application_id"], submitted["namespace"], submitted["is_seen"]) == (POD_ID, "jobs", True)


@pytest.mark.parametrize("where", ["yarn", "kubernetes"])
def test_a_driver_without_a_logged_id_is_found_by_its_tag(
    make: Any, spark_submit: FakeSparkSubmit, request: pytest.FixtureRequest, where: str
) -> None:
    """Its log level may be WARN, which hides the id."""
    api, number = request.getfixturevalue(where), {"yarn": YARN_ID, "kubernetes": POD_ID}[where]
    api.answer({"apps": {"app": [app("RUNNING")]}} if where == "yarn" else pods(pod("Running")))
    spark_submit.play("nothing to see")
    submitted = submission(deferred(make(), context(StateStore())))
    assert submitted["application_id"] == number
    assert submitted["tag"] in api.asked[-1]


def test_a_driver_unknown_to_the_cluster_is_not_submitted_again(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi
) -> None:
    yarn.answer(NOT_FOUND, 404)
    spark_submit.play(SUBMITTED_LINE)
    store = StateStore()
    assert not submission(deferred(make(), context(store)))["is_seen"]
    deferred(make(), context(store, try_number=2))
    assert len(spark_submit.calls) == 1


def test_a_failing_spark_submit_fails_the_try(make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi) -> None:
    spark_submit.play("ERROR Client: queue is full", exit=1)
    with pytest.raises(AirflowException, match="spark-submit ended with 1") as caught:
        make().execute(context(StateStore()))
    assert not isinstance(caught.value, AirflowFailException)


def test_the_users_max_app_attempts_is_kept(make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi) -> None:
    spark_submit.play(SUBMITTED_LINE)
    deferred(make(conf={"spark.yarn.maxAppAttempts": "3"}), context(StateStore()))
    assert "spark.yarn.maxAppAttempts=3" in spark_submit.calls[0].argv


def test_secrets_are_neither_in_the_trigger_nor_in_the_store(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi, root: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "ckpt", "host": root.uri, "extra": {"storage_options": {"token": "tok-en-2"}}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps(connection))
    spark_submit.play(SUBMITTED_LINE)
    store = StateStore()
    deferral = deferred(make(root=None, env_vars={"CKPT_STORAGE_OPTIONS": "{}"}), context(store))
    assert spark_submit.calls[0].storage_options == "{}"
    assert "tok-en-2" not in json.dumps([deferral.trigger.serialize(), store.writes])


# ---- refuse


@pytest.mark.parametrize(
    ("host", "extra", "conf", "problem"),
    [
        ("local[*]", {}, {}, "in client mode the driver is a child of the task"),
        ("local[*]", {"deploy-mode": "cluster"}, {}, "in client mode the driver is a child of the task"),
        ("yarn", {}, {}, "in client mode the driver is a child of the task"),
        ("yarn", {"deploy-mode": "client"}, {}, "Use deploy_mode='cluster' on YARN or Kubernetes"),
        ("spark://host:7077", {}, {}, "only YARN and Kubernetes"),
        ("spark://host:7077", {"deploy-mode": "cluster"}, {}, "only YARN and Kubernetes"),
        (
            "yarn",
            {"deploy-mode": "cluster"},
            {},
            "the Spark connection's extra needs yarn_resourcemanager_webapp_address",
        ),
        ("yarn", {"deploy-mode": "cluster"}, {"spark.yarn.submit.waitAppCompletion": "true"}, "Leave it out of conf"),
        ("k8s://https://cluster", {"deploy-mode": "cluster"}, {}, "Give the Spark connection's extra a namespace"),
        ("k8s://https://cluster", {"namespace": "jobs"}, {}, "in client mode the driver is a child of the task"),
    ],
)
def test_an_unsuitable_spark_connection_is_refused(
    make: Any,
    spark_submit: FakeSparkSubmit,
    connect: Callable[..., None],
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    extra: dict[str, str],
    conf: dict[str, str],
    problem: str,
) -> None:
    monkeypatch.setattr(provider_hook, "kube_client", SimpleNamespace(), raising=False)
    connect(host, **extra)
    store, before = StateStore(), root.files("")
    with pytest.raises(AirflowFailException, match=problem) as caught:
        make(conf=conf).execute(context(store))
    refused = caught.value.__cause__
    assert isinstance(refused, InvalidTaskArgumentError)
    assert (refused.data["master"], refused.data["conn_id"]) == (host, "spark_default")
    assert (spark_submit.calls, store.writes, root.files("")) == ([], [], before)


@pytest.mark.parametrize("how", ["unset", "none"])
def test_kubernetes_without_its_airflow_provider_is_refused(
    make: Any, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "unset":  # as in version 6.3 of the Spark provider
        monkeypatch.delattr(provider_hook, "kube_client", raising=False)
    else:
        monkeypatch.setattr(provider_hook, "kube_client", None, raising=False)
    connect("k8s://https://cluster", **{"deploy-mode": "cluster", "namespace": "jobs"})
    with pytest.raises(AirflowFailException, match="needs apache-airflow-providers-cncf-kubernetes"):
        make().execute(context(StateStore()))


@pytest.mark.parametrize(
    "arguments",
    [
        {"deploy_mode": "client"},
        {"yarn_rm_auth": object()},
        {"post_submit_commands": ["x"]},
        {"poll_interval": 0},
        {"poll_interval": "soon"},
    ],
)
def test_unsuitable_arguments_are_refused_when_the_dag_is_parsed(make: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        make(**arguments)


def test_airflows_default_does_not_make_the_task_deferrable(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert CheckpointedSparkJobOperator(task_id="orders", job="a.b:job").deferrable is False


# ---- resubmit


def test_a_retry_waits_for_the_live_driver(
    make: Any, spark_submit: FakeSparkSubmit, deferred_store: StateStore, journal: Callable[[str], Journal]
) -> None:
    driver_in_cluster(journal(JOB_ID))
    again = context(deferred_store, try_number=2)
    before = deferred_store.values[KEY]["submission"]
    deferral = deferred(make(), again)
    assert submission(deferral) == before
    assert len(spark_submit.calls) == 1
    assert deferred_store.values[KEY]["try_number"] == 2
    assert again["ti"].pushed == {JOB_ID_XCOM: JOB_ID}


def test_a_retry_without_an_answer_of_the_cluster_submits_nothing(
    make: Any,
    spark_submit: FakeSparkSubmit,
    deferred_store: StateStore,
    yarn: ClusterApi,
    journal: Callable[[str], Journal],
) -> None:
    driver_in_cluster(journal(JOB_ID))
    yarn.answer(b"", 503)
    deferred(make(), context(deferred_store, try_number=2))
    assert len(spark_submit.calls) == 1


def lose_worker_during_submit(operator: Any, store: StateStore, monkeypatch: pytest.MonkeyPatch, *, late: bool) -> None:
    """Kill the worker before spark-submit has submitted the driver, or (``late``) just after."""
    submit = CheckpointedSparkSubmitHook.submit

    def lost(hook: Any, *arguments: Any, **more: Any) -> Any:
        if late:
            submit(hook, *arguments, **more)
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointedSparkSubmitHook, "submit", lost)
        with pytest.raises(SystemExit):
            operator.execute(context(store))


def test_a_retry_finds_the_driver_of_a_lost_worker_by_its_tag(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit.play(SUBMITTED_LINE)
    store = StateStore()
    lose_worker_during_submit(make(), store, monkeypatch, late=True)
    assert store.values[KEY]["submission"]["application_id"] is None
    yarn.answer({"apps": {"app": [app("ACCEPTED")]}})
    submitted = submission(deferred(make(), context(store, try_number=2)))
    assert submitted["application_id"] == YARN_ID
    assert yarn.query("applicationTags") == submitted["tag"]
    assert len(spark_submit.calls) == 1


def test_a_retry_submits_if_the_worker_was_lost_before_the_submission(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore()
    lose_worker_during_submit(make(), store, monkeypatch, late=False)
    before = store.values[KEY]["submission"]["tag"]
    yarn.answer({"apps": None})
    spark_submit.play(SUBMITTED_LINE)
    submitted = submission(deferred(make(), context(store, try_number=2)))
    assert len(spark_submit.calls) == 1
    assert submitted["tag"] != before


def test_a_retry_submits_another_driver_after_a_dead_one(
    make: Any,
    spark_submit: FakeSparkSubmit,
    deferred_store: StateStore,
    yarn: ClusterApi,
    journal: Callable[[str], Journal],
) -> None:
    driver_in_cluster(journal(JOB_ID))
    yarn.answer({"app": app("FAILED", "FAILED")})
    spark_submit.play(SUBMITTED_LINE.replace("_0001", "_0002"))
    submitted = submission(deferred(make(), context(deferred_store, try_number=2)))
    assert (submitted["application_id"], submitted["after_epoch"], submitted["attempt"]) == (
        YARN_ID.replace("_0001", "_0002"),
        1,
        f"{JOB_ID}~t2",
    )


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED"])
def test_a_retry_returns_an_end_that_was_not_polled(
    make: Any, spark_submit: FakeSparkSubmit, deferred_store: StateStore, journal: Callable[[str], Journal], status: str
) -> None:
    writer = driver_in_cluster(journal(JOB_ID))
    complete(writer, 1, 2)
    end(writer, status)
    result = make().execute(context(deferred_store, try_number=2))
    assert (result["status"], result["released"]) == (status, 2)
    assert deferred_store.values[KEY]["status"] == status
    assert len(spark_submit.calls) == 1


def test_a_permanent_failure_that_was_not_polled_fails_the_retry(
    make: Any, spark_submit: FakeSparkSubmit, deferred_store: StateStore, journal: Callable[[str], Journal]
) -> None:
    end(driver_in_cluster(journal(JOB_ID)), "FAILED", "no such column: shop")
    with pytest.raises(AirflowFailException, match="no such column: shop"):
        make().execute(context(deferred_store, try_number=2))
    assert len(spark_submit.calls) == 1


@pytest.mark.parametrize("lost", ["forgotten", "of a try that was not deferred"])
def test_a_driver_is_found_by_the_application_id_in_the_journal(
    make: Any,
    spark_submit: FakeSparkSubmit,
    deferred_store: StateStore,
    yarn: ClusterApi,
    journal: Callable[[str], Journal],
    lost: str,
) -> None:
    """Airflow deletes entries of its task state store after 30 days."""
    driver_in_cluster(journal(JOB_ID), application_id="application_1700000000000_0009")
    if lost == "forgotten":
        del deferred_store.values[KEY]
    else:
        del deferred_store.values[KEY]["submission"]
    submitted = submission(deferred(make(), context(deferred_store, try_number=2)))
    assert submitted["application_id"] == "application_1700000000000_0009"
    assert yarn.asked[-1].endswith("_0009")
    assert len(spark_submit.calls) == 1


def test_a_retry_does_not_wait_for_a_client_mode_driver(
    make: Any, spark_submit: FakeSparkSubmit, deferred_store: StateStore, journal: Callable[[str], Journal]
) -> None:
    """The driver ended with its task, and YARN would not know its id."""
    driver_in_cluster(journal(JOB_ID), application_id="local-1700000000000")
    del deferred_store.values[KEY]["submission"]
    spark_submit.play(SUBMITTED_LINE)
    deferred(make(), context(deferred_store, try_number=2))
    assert len(spark_submit.calls) == 2


def test_a_task_does_not_wait_for_the_driver_of_another_task(
    make: Any, spark_submit: FakeSparkSubmit, yarn: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    driver_in_cluster(journal("shared"), "shop.orders.r0~t1")
    spark_submit.play(SUBMITTED_LINE)
    deferred(make(job_id="shared"), context(StateStore()))
    assert len(spark_submit.calls) == 1


def test_a_cleared_task_waits_for_the_live_driver(
    make: Any, spark_submit: FakeSparkSubmit, deferred_store: StateStore, journal: Callable[[str], Journal]
) -> None:
    driver_in_cluster(journal(JOB_ID))
    deferral = deferred(make(), context(deferred_store, try_number=2, max_tries=3, clear_number=1))
    assert deferral.trigger.serialize()[1]["leaving"] is False
    assert (deferred_store.values[KEY]["max_tries"], deferred_store.values[KEY]["clear_number"]) == (3, 1), (
        "a retry of it is no clear"
    )
    assert len(spark_submit.calls) == 1


def test_a_cleared_task_stops_the_live_driver_before_a_restart(
    make: Any,
    spark_submit: FakeSparkSubmit,
    deferred_store: StateStore,
    yarn: ClusterApi,
    journal: Callable[[str], Journal],
) -> None:
    writer = driver_in_cluster(journal(JOB_ID))
    cleared = context(deferred_store, try_number=2, max_tries=3, clear_number=1)
    operator = make(on_clear="restart")
    assert deferred(operator, cleared).trigger.serialize()[1]["leaving"] is True
    assert len(spark_submit.calls) == 1
    end(writer, "STOPPED")
    yarn.answer({"app": app("FINISHED", "SUCCEEDED")})
    spark_submit.play(SUBMITTED_LINE)
    deferral = deferred(operator, cleared, {"outcome": "left", "message": "it left"})
    assert deferral.trigger.serialize()[1]["job_id"] == f"{JOB_ID}~g1"
    assert spark_submit.calls[1].options["job_id"] == f"{JOB_ID}~g1"


# ---- the end


def result_with(status: str) -> dict[str, Any]:
    return {
        "job_id": JOB_ID,
        "status": status,
        "epoch": 1,
        "checkpoint": 3,
        "released": 3,
        "finished_operators": ["history"],
        "late_rows": 0,
        "changed_files": 0,
        "unfit_rows": 0,
        "malformed_rows": 0,
    }


def test_the_resumed_task_returns_the_result_of_its_event(make: Any, deferred_store: StateStore) -> None:
    asset = Asset("orders")
    running = {**context(deferred_store), "outlet_events": {asset: SimpleNamespace(extra={})}}
    event = {"outcome": "succeeded", "message": "FINISHED", "result": result_with("FINISHED")}
    assert make(outlets=[asset]).execute_complete(running, event) == result_with("FINISHED")
    assert running["outlet_events"][asset].extra == result_with("FINISHED")
    assert (deferred_store.values[KEY]["status"], deferred_store.values[KEY]["released"]) == ("FINISHED", 3)


@pytest.mark.parametrize(
    ("outcome", "is_final"),
    [("failed", True), ("retry", False)],
)
def test_the_triggers_outcome_decides_whether_a_failure_is_permanent(
    make: Any, deferred_store: StateStore, outcome: str, is_final: bool
) -> None:
    event = {
        "outcome": outcome,
        "message": "no such column",
        "result": result_with("FAILED" if is_final else "RESTARTING"),
    }
    with pytest.raises(AirflowException, match="no such column") as caught:
        make().execute_complete(context(deferred_store), event)
    assert isinstance(caught.value, AirflowFailException) is is_final


def test_a_missing_or_unwritable_pointer_does_not_lose_the_result(make: Any, deferred_store: StateStore) -> None:
    event = {"outcome": "succeeded", "message": "FINISHED", "result": result_with("FINISHED")}
    deferred_store.broken = True
    assert make().execute_complete(context(deferred_store), event) == result_with("FINISHED")
    assert make().execute_complete(context(StateStore()), event) == result_with("FINISHED")


def test_a_timeout_stops_the_driver_and_the_retry_follows_it(
    make: Any,
    spark_submit: FakeSparkSubmit,
    deferred_store: StateStore,
    root: Storage,
    journal: Callable[[str], Journal],
) -> None:
    writer = driver_in_cluster(journal(JOB_ID))
    with pytest.raises(TaskDeferralTimeout):
        make().resume_execution("__fail__", {"error": "Trigger timeout"}, context(deferred_store))
    (name,) = root.list(f"{JOB_ID}/requests")
    assert json.loads(root.read(f"{JOB_ID}/requests/{name}"))["exit_if_it_fails"] is True
    again = context(deferred_store, try_number=2)
    deferred(make(), again)
    assert len(spark_submit.calls) == 1, "it is leaving"
    end(writer, "STOPPED")
    spark_submit.play(SUBMITTED_LINE)
    deferred(make(), again, {"outcome": "left", "message": "it left"})
    assert len(spark_submit.calls) == 2


@pytest.mark.slow
def test_a_whole_dag_run_defers_and_is_resumed(
    run: Callable[..., Any],
    make: Any,
    spark_submit: FakeSparkSubmit,
    yarn: ClusterApi,
    journal: Callable[[str], Journal],
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow creates the trigger from its kwargs and passes its event on."""
    looks: list[int] = []
    look = DriverWatch.poll

    def driven(watch: DriverWatch, **arguments: Any) -> Any:
        looks.append(1)
        if len(looks) == 2:
            writer = start_driver(journal("nightly"), watch.submission.attempt)
            complete(writer, 1)
            end(writer, "FINISHED")
        return look(watch, **arguments)

    monkeypatch.setattr(DriverWatch, "poll", driven)
    monkeypatch.setattr(spark_application.SparkApplicationTrigger, "settling", 0.0)
    spark_submit.play(SUBMITTED_LINE)
    with DAG("shop_deferrable", schedule=None) as dag:
        CheckpointedSparkJobOperator(
            task_id="orders",
            job="pipelines.orders:job",
            job_id="nightly",
            root=root.uri,
            spark_binary=spark_submit.path,
            deferrable=True,
            poll_interval=0.05,
        )
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    result = tasks["orders"].xcom_pull(task_ids="orders")
    assert (result["job_id"], result["status"], result["released"]) == ("nightly", "FINISHED", 1)
    assert len(looks) == 2
    assert Path(spark_submit.calls[0].value("--py-files")).name.startswith("airflow_provider_ckpt-")
