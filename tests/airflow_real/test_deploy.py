"""Restart of a worker, and sensors next to the task that runs the job, in a whole Airflow."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.airflow_real.server import Airflow
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import check_exactly_once
from tests.chaos.world import JOBS, SMALL, Variant, World
from tests.support.processes import is_alive, parent, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1500)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"))
DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobOperator, CheckpointSensor

with DAG("orders", schedule=None):
    CheckpointedSparkJobOperator(
        task_id="run",
        job={str(JOBS / "mixed.py:job")!r},
        job_id="mixed",
        checkpoint_interval=0.5,
        conf={ {name: value for name, value in SMALL.items() if name != "spark.master"} },
        stop_grace=120,
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
    CheckpointSensor(
        task_id="history", job_task_id="run", finished="history", deferrable=True, poke_interval=1
    )
    CheckpointSensor(task_id="next", job_task_id="run", checkpoint="next", deferrable=True, poke_interval=1)

with DAG("nowhere", schedule=None):
    CheckpointedSparkJobOperator(task_id="run", job="no.py:job", conn_id="no_spark", retries=3)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), MIXED) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAG)
        yield running


def test_a_missing_spark_connection_is_not_retried(airflow: Airflow) -> None:
    run = airflow.start_dag("nowhere")
    wait_until(lambda: airflow.task("nowhere", run, "run")["state"] == "failed", lambda: _task_logs(airflow, "nowhere"))
    assert airflow.task("nowhere", run, "run")["try_number"] == 1
    assert "'no_spark', which says where Spark runs, does not exist" in airflow.task_log("nowhere", "run")


def test_a_shut_down_worker_takes_a_savepoint_and_the_retry_resumes(airflow: Airflow, world: World) -> None:
    with Feeder(world.data, every=1.0):
        run = airflow.start_dag("orders")
        wait_until(lambda: world.has_left_history(), lambda: f"history finished\n{_task_logs(airflow)}", seconds=300)
        wait_until(lambda: _state(airflow, run, "history") == "success", lambda: _task_logs(airflow), seconds=120)
        wait_until(lambda: _state(airflow, run, "next") == "success", lambda: _task_logs(airflow), seconds=120)
        driver = world.state().worker.pid
        assert driver is not None
        worker = parent(parent(parent(driver)))
        send(worker, signal.SIGTERM)  # from the executor; Airflow passes it on to the task
        wait_until(lambda: not is_alive(driver), lambda: f"the driver leaves\n{_task_logs(airflow)}", seconds=130)
        left = world.state()
        stopped = [left.status, left.checkpoints[left.last_completed].kind, left.last_released == left.last_completed]
        assert stopped == ["STOPPED", "savepoint", True] or left.epoch == 2, stopped
        wait_until(lambda: world.state().epoch == 2, lambda: f"the retry\n{_task_logs(airflow)}", seconds=300)
        after = world.state().last_released
        wait_until(
            lambda: world.state().last_released > after, lambda: f"a release\n{_task_logs(airflow)}", seconds=120
        )
    wait_for_all(world)
    world.drain()
    wait_until(lambda: _state(airflow, run, "run") == "success", lambda: f"the end\n{_task_logs(airflow)}", seconds=120)
    assert airflow.task("orders", run, "run")["try_number"] == 2
    log = airflow.task_log("orders", "run")
    assert "this task was killed, and its driver took a savepoint and left" in log
    assert "Resuming job mixed (STOPPED) from checkpoint" in log
    assert "run-options" not in log, "the options are no news"
    check_exactly_once(world)


def _state(airflow: Airflow, run: str, name: str) -> str:
    return str(airflow.task("orders", run, name)["state"])


def _task_logs(airflow: Airflow, dag: str = "orders") -> str:
    return "\n".join(airflow.task_log(dag, name)[-4000:] for name in ("run", "history", "next"))
