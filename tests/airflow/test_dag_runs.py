"""Whole Dag runs in this process: Airflow renders, retries, stores state and defers. spark-submit is fake."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.sdk import DAG, Asset
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.operators.group_run import default_job_id
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.sensors.checkpoint import CheckpointSensor
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.triggers.condition import Verdict
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import FakeSparkSubmit, status

FINISHED = status("finished", epoch=2, checkpoint=2, finished_operators=["history"])


def finished_job(folder: Path, job_id: str) -> Path:
    """Create a root with a FINISHED job, for spark-submit to copy into the real one."""
    root = open_root(open_storage(folder))
    writer = start_driver(Journal(root, job_id))
    complete(writer, 1, 2)
    end(writer, "FINISHED")
    return folder


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "orders.py").write_text("")
    return f"{tmp_path}/orders.py:job"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", "host": str(root)}))
    return root


def test_a_retry_keeps_its_job_and_templates_are_rendered(
    run: Callable[..., Any],
    spark_submit: FakeSparkSubmit,
    connection: Path,
    job: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    spark_submit.play(exit=1)
    spark_submit.play(FINISHED)
    with DAG("shop_retry", schedule=None) as dag:
        CheckpointedSparkJobOperator(
            task_id="orders",
            job=job,
            spark_binary=spark_submit.path,
            checkpoint_interval=timedelta(seconds=7),
            stop_at="{{ logical_date }}",
            conf={"spark.x": "{{ dag.dag_id }}"},
            retries=1,
            retry_delay=timedelta(0),
        )
    when = datetime(2026, 1, 1, tzinfo=timezone.utc)
    dag_run, tasks = run(dag, logical_date=when)
    assert dag_run.state == "success"
    assert tasks["orders"].try_number == 2
    # Only a try that finds the previous try's pointer checks the earlier job.
    assert capfd.readouterr().out.count("has not started yet: starting it") == 1
    first, second = spark_submit.calls
    assert first.options["job_id"] == default_job_id("shop_retry", "orders", dag_run.run_id)
    assert second.options["job_id"] == first.options["job_id"]
    assert [call.options["attempt"][-3:] for call in (first, second)] == ["~t1", "~t2"]
    assert first.options["stop_at"] == "2026-01-01T00:00:00+00:00"
    assert first.options["checkpoint_interval"] == 7.0
    assert "spark.x=shop_retry" in first.argv
    result = tasks["orders"].xcom_pull(task_ids="orders")
    assert (result["status"], result["finished_operators"]) == ("FINISHED", ["history"])


def test_a_permanent_failure_is_not_retried(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, connection: Path, job: str
) -> None:
    spark_submit.play(status("failed", "the graph has a cycle"), exit=2)
    with DAG("shop_terminal", schedule=None) as dag:
        CheckpointedSparkJobOperator(task_id="orders", job=job, spark_binary=spark_submit.path, retries=3)
    dag_run, tasks = run(dag)
    assert dag_run.state == "failed"
    assert tasks["orders"].try_number == 1
    assert len(spark_submit.calls) == 1


def test_the_asset_event_has_the_job_id_and_the_release(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, connection: Path, job: str, tmp_path: Path
) -> None:
    spark_submit.play(copy=(finished_job(tmp_path / "made", "nightly"), connection))
    lake = Asset("lake")
    with DAG("shop_outlet", schedule=None) as dag:
        CheckpointedSparkJobOperator(
            task_id="orders", job=job, job_id="nightly", spark_binary=spark_submit.path, outlets=[lake]
        )
    dag_run, _ = run(dag)
    assert dag_run.state == "success"
    with create_session() as session:
        (extra,) = session.scalars(select(AssetEvent.extra).where(AssetEvent.source_dag_id == "shop_outlet"))
    assert (extra["job_id"], extra["status"], extra["released"]) == ("nightly", "FINISHED", 2)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_downstream_of_the_job_succeeds(
    run: Callable[..., Any],
    spark_submit: FakeSparkSubmit,
    connection: Path,
    job: str,
    tmp_path: Path,
    deferrable: bool,
) -> None:
    spark_submit.play(copy=(finished_job(tmp_path / "made", "nightly"), connection))
    with DAG(f"shop_sensor_{deferrable}", schedule=None) as dag:
        orders = CheckpointedSparkJobOperator(
            task_id="orders", job=job, job_id="nightly", spark_binary=spark_submit.path
        )
        wait = CheckpointSensor(task_id="wait", job_id="{{ ti.xcom_pull('orders')['job_id'] }}", deferrable=deferrable)
        orders >> wait
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["wait"].xcom_pull(task_ids="wait")["status"] == "FINISHED"


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_gets_the_job_id_from_another_task(
    run: Callable[..., Any],
    spark_submit: FakeSparkSubmit,
    connection: Path,
    job: str,
    tmp_path: Path,
    deferrable: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The task's job id, for example with ``~g1``, cannot be derived by the sensor.
    spark_submit.play(copy=(finished_job(tmp_path / "made", "nightly"), connection))
    if deferrable:  # poll once in the task, then again in the trigger
        monkeypatch.setattr(CheckpointSensor, "_poll", lambda self, context: _waiting(self, context))
    with DAG(f"shop_beside_{deferrable}", schedule=None) as dag:
        orders = CheckpointedSparkJobOperator(
            task_id="orders", job=job, job_id="nightly", spark_binary=spark_submit.path
        )
        orders >> CheckpointSensor(task_id="wait", job_task_id="orders", deferrable=deferrable, poke_interval=0.05)
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["wait"].xcom_pull(task_ids="wait")["job_id"] == "nightly"


_LOOK = CheckpointSensor._poll


def _waiting(sensor: CheckpointSensor, context: Any) -> Verdict:
    _LOOK(sensor, context)
    return Verdict("wait", "not yet")


def test_a_sensor_for_a_missing_task_fails_permanently(run: Callable[..., Any], connection: Path) -> None:
    with DAG("shop_nobody", schedule=None) as dag:
        CheckpointSensor(task_id="wait", job_task_id="order", retries=3)
    dag_run, tasks = run(dag)
    assert dag_run.state == "failed"
    assert tasks["wait"].try_number == 1


def test_parameters_are_templated(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, connection: Path, job: str
) -> None:
    spark_submit.play(FINISHED)
    with DAG("shop_params", schedule=None) as dag:
        CheckpointedSparkJobOperator(
            task_id="orders", job=job, spark_binary=spark_submit.path, job_params={"day": "{{ ds }}"}
        )
    run(dag, logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    assert spark_submit.calls[0].options["params"] == {"day": "2026-01-02"}


def test_a_deferred_sensor_is_resumed_by_its_trigger(
    run: Callable[..., Any], connection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = open_root(open_storage(connection))
    writer = start_driver(Journal(root, "nightly"))
    # The sensor polls once before it defers. The job reaches the checkpoint in between.
    defer = CheckpointSensor.defer

    def later(self: CheckpointSensor, **arguments: Any) -> None:
        complete(writer, 1)
        defer(self, **arguments)

    monkeypatch.setattr(CheckpointSensor, "defer", later)
    with DAG("shop_deferred", schedule=None) as dag:
        CheckpointSensor(task_id="wait", job_id="nightly", checkpoint=1, deferrable=True, poke_interval=0.05)
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["wait"].xcom_pull(task_ids="wait")["released"] == 1


MAPPED: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "one id for all": ({"job_id": "orders"}, {"job_params": [{"day": "1"}, {"day": "2"}]}, False),
    "one id for all, from a template": ({"job_id": "orders-{{ ds }}"}, {"job_params": [{"day": "1"}]}, False),
    "by map index": ({"job_id": "orders-{{ ti.map_index }}"}, {"job_params": [{"day": "1"}, {"day": "2"}]}, True),
    "expanded": ({}, {"job_id": ["orders-1", "orders-2"]}, True),
    "left out": ({}, {"job_params": [{"day": "1"}, {"day": "2"}]}, True),
}
"""Arguments of partial and of expand, and whether the instances run."""


@pytest.mark.parametrize(("partial", "expand", "runs"), MAPPED.values(), ids=list(MAPPED))
def test_mapped_task_instances_do_not_share_a_job(
    partial: dict[str, Any],
    expand: dict[str, Any],
    runs: bool,
    run: Callable[..., Any],
    spark_submit: FakeSparkSubmit,
    connection: Path,
    job: str,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        spark_submit.play(FINISHED)
    with DAG(f"mapped_{list(MAPPED).index(request.node.callspec.id)}", schedule=None) as dag:
        CheckpointedSparkJobOperator.partial(
            task_id="orders", job=job, spark_binary=spark_submit.path, retries=0, **partial
        ).expand(**expand)
    dag_run, _ = run(dag, logical_date=datetime(2026, 1, 1, tzinfo=timezone.utc))
    ids = [call.options["job_id"] for call in spark_submit.calls]
    assert (dag_run.state, len(ids)) == (("success", 2) if runs else ("failed", 0))
    assert len(set(ids)) == len(ids)
    assert ("each of its instances would take the job from the others" in capfd.readouterr().out) == (not runs)
