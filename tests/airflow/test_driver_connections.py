"""Connections of a job's sinks reach its drivers by the environment, and appear nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from airflow_provider_ckpt.connections import environment
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.hooks.driver_connections import driver_connections
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.operators.job_group import CheckpointedSparkJobGroup
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status

pytestmark = pytest.mark.airflow
SECRET = "s3cr3t/@:PW"
VARIABLE = "AIRFLOW_CONN_SHOP_DB"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define connections in a fake secrets backend, outside this process's environment."""
    shop = Connection(conn_id="shop_db", conn_type="postgres", host="h", login="me", password=SECRET, schema="shop")
    connections_by_id, before = {"shop_db": shop}, BaseHook.get_connection

    def get_connection(conn_id: str) -> Any:
        if conn_id == "none":
            raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")
        return connections_by_id.get(conn_id) or before(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(get_connection))
    monkeypatch.setattr(environment, "_IN_MEMORY", {})


def operator(spark_submit: FakeSparkSubmit, root: Storage, folder: Path, **given: Any) -> CheckpointedSparkJobOperator:
    (folder / "orders.py").write_text("")
    return CheckpointedSparkJobOperator(
        task_id="orders", job=f"{folder}/orders.py:job", root=root.uri, spark_binary=spark_submit.path, **given
    )


def test_a_driver_gets_connections_only_in_its_environment(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    printed = f"FATAL: the server said {SECRET}"
    spark_submit.play(status("started", epoch=1), printed, status("finished", printed, epoch=1, checkpoint=1))
    task, store = operator(spark_submit, root, tmp_path, conn_ids=["shop_db"]), StateStore()
    run = context(store)
    result = task.execute(run)
    (call,) = spark_submit.calls
    assert read_connection("shop_db", call.connections).password == SECRET
    logged = capfd.readouterr()
    fields = {name: getattr(task, name, None) for name in task.template_fields}
    for shown in (call.argv, logged.out, logged.err, result, store.writes, run["ti"].pushed, fields):
        assert "s3cr3t" not in str(shown)
    assert not [path for path in tmp_path.rglob("*.json") if path.parent != spark_submit.folder and _holds(path)]


def _holds(path: Path) -> bool:
    return "s3cr3t" in path.read_text()


@pytest.mark.parametrize("master", ["yarn", "k8s://https://h:6443"])
def test_connections_are_not_configuration_in_client_mode(master: str) -> None:
    """On YARN and Kubernetes the Spark provider turns environment variables into ``--conf``."""
    base = SparkSubmitHook(conn_id="none_of_these", env_vars={"MINE": "1"})
    base._connection.update(master=master, deploy_mode="client", namespace="default")
    base._is_yarn, base._is_kubernetes = master == "yarn", master != "yarn"
    connections = driver_connections(["shop_db"])
    hook = CheckpointedSparkSubmitHook(
        base, name="x", application_args=[], on_status=lambda line: None, connections=connections
    )
    command = hook._build_spark_submit_command("main.py")
    assert "s3cr3t" not in json.dumps(command) + repr(connections)
    assert read_connection("shop_db", hook._env).schema == "shop"


def test_connections_are_refused_in_cluster_mode() -> None:
    base = SparkSubmitHook(conn_id="none_of_these")
    base._connection["deploy_mode"] = "cluster"
    with pytest.raises(InvalidTaskArgumentError, match=f"have the cluster set {VARIABLE}") as raised:
        CheckpointedSparkSubmitHook(
            base,
            name="x",
            application_args=[],
            on_status=lambda line: None,
            connections=driver_connections(["shop_db"]),
        )
    assert "s3cr3t" not in str(raised.value) + repr(raised.value.data)


def test_a_missing_connection_fails_the_task_before_the_submission(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path
) -> None:
    with pytest.raises(AirflowFailException, match="names the Airflow connection 'none', which does not exist"):
        operator(spark_submit, root, tmp_path, conn_ids=["none"]).execute(context(StateStore()))
    assert spark_submit.calls == []


def test_an_empty_rendered_job_id_is_refused(spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path) -> None:
    """The task used to start another job, which read everything from the start."""
    task = operator(spark_submit, root, tmp_path, job_id="{{ var }}")
    task.job_id = ""  # the value that Airflow renders
    with pytest.raises(AirflowFailException, match="job_id='' cannot be used"):
        task.execute(context(StateStore()))
    assert spark_submit.calls == []


def test_conn_ids_must_be_a_list(spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path) -> None:
    with pytest.raises(InvalidTaskArgumentError, match=r"conn_ids=\['shop_db'\]"):
        operator(spark_submit, root, tmp_path, conn_ids="shop_db")
    for given in (None, 3, [None], [""], [3]):  # used to fail with a TypeError, and was retried
        with pytest.raises(InvalidTaskArgumentError, match="which are texts"):
            operator(spark_submit, root, tmp_path, conn_ids=given)
    # one sink would get the other's connection
    with pytest.raises(InvalidTaskArgumentError, match="differ in case only"):
        operator(spark_submit, root, tmp_path, conn_ids=["Shop", "shop"])
    operator(spark_submit, root, tmp_path, conn_ids=["shop", "shop", "{{ a }}", "{{ A }}"])


def test_every_task_of_a_group_gets_the_connections() -> None:
    from airflow.sdk import DAG

    with DAG("shop") as dag:
        CheckpointedSparkJobGroup("orders", job="a.py:job", root="/r", conn_ids=["shop_db"])
    tasks: dict[str, Any] = {task.task_id: task for task in dag.tasks}
    assert tasks["orders.plan"].conn_ids == tasks["orders.coordinate"].conn_ids == ["shop_db"]
    assert tasks["orders.subtask"].partial_kwargs["conn_ids"] == ["shop_db"]
