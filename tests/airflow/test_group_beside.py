"""Other tasks and Dags around a group: a sensor next to it, asset events of its outlets, and a deferred subtask.

Airflow maps, defers and resumes in whole Dag runs. Spark and the JobMaster are fakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, TaskGroup
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ckpt import CheckpointedSparkJobGroup, CheckpointSensor
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.operators.group_run import GroupRun
from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator
from airflow_provider_ckpt.remote import master as masters
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers import awaited_master, job_master
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from tests.airflow.driver_journal import complete
from tests.airflow.group_journal import JOB_ID, SUBTASKS, coordinated, ended, prepared
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status

JOB = "from airflow_provider_ckpt import Job\njob = Job('orders')\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the job's folder. The Dag run has no id here, so test_group_run.py covers whose deployment it is."""
    (tmp_path / "orders.py").write_text(JOB)
    monkeypatch.setattr("airflow_provider_ckpt.job.job.Job.validate", lambda job: None)
    monkeypatch.setattr(GroupRun, "owns", lambda self, state: bool(state.prepared_by))
    monkeypatch.setattr(job_master, "SETTLING", 0.0)
    return tmp_path


# ---- a sensor of the same Dag run


@pytest.fixture
def sensor(root: Storage, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that polls the sensor once while ``coordinate`` has the given state."""

    def look(state: str) -> Any:
        states = {"orders.coordinate": state}
        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **arguments: {"r1": states})
        monkeypatch.setattr(
            XCom, "get_one", lambda **arguments: JOB_ID if arguments["task_id"] == "orders.coordinate" else None
        )
        wait = CheckpointSensor(task_id="wait", job_task_id="orders.coordinate", checkpoint=2, root=root.uri)
        return wait.poke(context(StateStore()))

    return look


def test_a_sensor_follows_the_job_of_a_deferred_coordinate_task(
    sensor: Callable[[str], Any], journal: Callable[[str], Journal]
) -> None:
    orders = coordinated(prepared(journal(JOB_ID)))
    complete(orders, 1)
    assert sensor("deferred") is False
    complete(orders, 2)
    assert sensor("deferred").xcom_value == {"job_id": JOB_ID, "status": "RUNNING", "checkpoint": 2, "released": 2}


def test_a_sensor_waits_while_coordinate_has_not_started(
    sensor: Callable[[str], Any], journal: Callable[[str], Journal]
) -> None:
    """The sensor ignores a job of that name that has come further, because that was before a clear."""
    complete(coordinated(prepared(journal(JOB_ID))), 1, 2)
    assert sensor("scheduled") is False


def test_a_sensor_fails_with_coordinate_but_not_while_it_is_retried(
    sensor: Callable[[str], Any], journal: Callable[[str], Journal]
) -> None:
    ended(coordinated(prepared(journal(JOB_ID))), "RESTARTING")
    assert sensor("up_for_retry") is False
    with pytest.raises(AirflowFailException, match=r"Task orders\.coordinate is failed"):
        sensor("failed")


# ---- whole Dag runs


def test_a_group_emits_an_asset_event_and_a_later_sensor_succeeds(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, made, lake = dags / "ckpt", dags / "made", Asset(name="lake_of_group", uri="file:///lake/group")

    def master(remote: Any, on_status: Callable[[StatusLine], None], on_master: Any) -> ExitCode:
        journal = coordinated(Journal(open_root(open_storage(root)), "feed"))
        complete(journal, 1, 2)
        ended(journal, "FINISHED")
        on_status(StatusLine("finished", "all sources have ended", {"status": "FINISHED"}))
        return ExitCode.FINISHED

    monkeypatch.setattr(masters, "run_master", master)
    with DAG("shop_group_outlet", schedule=None) as dag:
        group = CheckpointedSparkJobGroup(
            "orders",
            job=f"{dags}/orders.py:job",
            job_id="feed",
            root=str(root),
            spark={"spark_binary": spark_submit.path},
            coordinate={"outlets": [lake]},
        )
        wait = CheckpointSensor(task_id="wait", job_task_id="orders.coordinate", root=str(root))
        group >> wait
    prepared(Journal(open_root(open_storage(made)), "feed"), "the id of the Dag run is made later")
    spark_submit.play(status("prepared"), copy=(made, root))
    for _ in SUBTASKS:
        spark_submit.play(status("finished"))
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["wait"].state == "success"
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == "shop_group_outlet"))
    assert event.source_task_id == "orders.coordinate"
    result = {name: event.extra[name] for name in ("job_id", "status", "checkpoint", "released")}
    assert result == {"job_id": "feed", "status": "FINISHED", "checkpoint": 2, "released": 2}


def test_w7_waiting_for_a_jobmaster_fails_no_try_of_a_subtask(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens twice, in a task without retries. Each worker gets the same arguments."""
    journal = coordinated(prepared(Journal(open_root(open_storage(dags / "ckpt")), "feed")))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.to_thread(coordinated, journal)

    monkeypatch.setattr(AwaitedMasterTrigger, "_sleep", staticmethod(sleep))
    with DAG("shop_group_waits", schedule=None) as dag, TaskGroup("orders"):
        subtask = SubtaskTaskOperator(
            task_id="subtask",
            job=f"{dags}/orders.py:job",
            job_id="feed",
            root=str(dags / "ckpt"),
            spark_binary=spark_submit.path,
            subtask="history/0",
            coordinate="orders.coordinate",
            ckpt_group="orders",
            silence="5s",
            poll_interval=2,
            retries=0,
        )
        subtask >> EmptyOperator(task_id="coordinate")
    for epoch in (2, 3):
        spark_submit.play(status("failed", "no JobMaster", epoch=epoch, no_master=True), exit=1)
    spark_submit.play(status("finished"))
    _, tasks = run(dag)
    assert (tasks["orders.subtask"].state, tasks["orders.subtask"].try_number) == ("success", 1)
    assert slept == [12.0, 12.0]
    worker = ["--worker", "history/0", "--deployment", "1"]
    assert [call.argv[-4:] for call in spark_submit.calls] == [worker] * 3
    assert [call.value("--silence") for call in spark_submit.calls] == ["5"] * 3
    tries = {(call.value("--try-of"), call.value("--try")) for call in spark_submit.calls}
    assert {number for _, number in tries} == {"1"}
    assert len(tries) == 1


def test_a_failed_run_fails_no_try_of_a_subtask(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task has no retries. Its worker leaves, the job is prepared again, and another worker joins it."""
    journal = coordinated(prepared(Journal(open_root(open_storage(dags / "ckpt")), "feed")))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        steps = {1: lambda: ended(journal, "RESTARTING"), 2: lambda: prepared(journal, f"{JOB_ID}~t2.coordinate")}
        await asyncio.to_thread(steps[len(slept)])

    monkeypatch.setattr(AwaitedMasterTrigger, "_sleep", staticmethod(sleep))
    monkeypatch.setattr(awaited_master, "is_held_by_group", lambda mine, state: True)  # the Dag run has no id here
    with DAG("shop_group_fails", schedule=None) as dag, TaskGroup("orders"):
        subtask = SubtaskTaskOperator(
            task_id="subtask",
            job=f"{dags}/orders.py:job",
            job_id="feed",
            root=str(dags / "ckpt"),
            spark_binary=spark_submit.path,
            subtask="history/0",
            coordinate="orders.coordinate",
            ckpt_group="orders",
            poll_interval=2,
            retries=0,
        )
        subtask >> EmptyOperator(task_id="coordinate")
    spark_submit.play(status("failed", "job feed is RESTARTING, so this worker stops", epoch=2, run_over=True), exit=1)
    spark_submit.play(status("finished"))
    _, tasks = run(dag)
    assert (tasks["orders.subtask"].state, tasks["orders.subtask"].try_number) == ("success", 1)
    assert slept == [12.0, 2.0]
    assert [call.argv[-1] for call in spark_submit.calls] == ["1", "3"]
