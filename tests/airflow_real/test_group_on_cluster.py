"""Group of tasks in a whole Airflow, whose subtasks are applications of a standalone Spark cluster.

If PostgreSQL is installed, Airflow runs in parts as it is deployed. Otherwise it is ``airflow standalone`` on SQLite.
"""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.airflow_real.deployment import Deployment
from tests.airflow_real.server import Airflow
from tests.airflow_real.watched_group import WatchedGroup
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant, World
from tests.cluster.standalone import ONE_EXECUTOR, Standalone
from tests.support.postgres import PostgreSQL, initdb
from tests.support.processes import is_alive, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1800)]

JOBS = Path(__file__).parent / "jobs"
GROUPED, BOUNDED = Variant("grouped", "grouped.py", ("out",)), Variant("bounded", "bounded.py", ("all",))
APPLICATIONS = 3
"""Subtasks of a job. Each is an application with one executor of one core."""
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"} | ONE_EXECUTOR
DAGS = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

for name, options in (("grouped", {{"checkpoint_interval": 0.5}}), ("bounded", {{}})):
    with DAG(name, schedule=None, default_args={{"retry_delay": timedelta(seconds=1)}}):
        CheckpointedSparkJobGroup(
            "orders",
            job=f"{JOBS}/{{name}}.py:job",
            job_id=name,
            spark={{"conf": {CONF!r}}},
            **options,
        )
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster"), cores=2) as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), GROUPED, history_files=60) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": f'{{"conn_type": "spark", "host": "{cluster.url}"}}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    with _installed(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAGS)
        yield running


@contextmanager
def _installed(home: Path, env: Mapping[str, str]) -> Iterator[Airflow]:
    if initdb() is None:
        with Airflow(home, env) as running:
            yield running
        return
    with PostgreSQL() as postgres, Deployment(home, env, postgres.url) as running:
        yield running


def test_a_lost_executor_or_driver_does_not_fail_the_group(airflow: Airflow, world: World, cluster: Standalone) -> None:
    with Feeder(world.data, every=1.0):
        group = WatchedGroup(airflow, world, "orders", "grouped", airflow.start_dag("grouped"))
        group.wait_for_release("the job runs")
        wait_until(lambda: len(cluster.executors()) >= APPLICATIONS, lambda: group.logs_text(), seconds=200)
        with group.logs.watched():
            lost = cluster.kill_an_executor()
            wait_until(lambda: not is_alive(lost), "the end of the executor")
            group.wait_for_release("an executor was killed")
            _kill_a_worker(group)
            group.wait_for_release("a driver was killed")
    wait_for_all(world)
    world.drain()
    _wait_for_success(group)
    assert {name: number for name, number in group.tries().items() if number > 1} == {"history/0": 2}
    group.logs.check()
    check_exactly_once(world)


def test_a_bounded_job_runs_in_batch_mode_and_retries_only_a_killed_driver(airflow: Airflow, world: World) -> None:
    bounded = copy.copy(world)
    bounded.variant, bounded.job_id = BOUNDED, BOUNDED.name
    group = WatchedGroup(airflow, bounded, "orders", "bounded", airflow.start_dag("bounded"))
    with group.logs.watched():
        group.wait_without_failure(lambda: group.logs.batches("history/0") >= 3, "splits are read")
        _kill_a_worker(group)
        _wait_for_success(group)
    assert {name: number for name, number in group.tries().items() if number > 1} == {"history/0": 2}
    state = bounded.state()
    assert (state.status, state.definition and state.definition.mode) == ("FINISHED", "batch")
    group.logs.check()
    check_exactly_once(bounded)


def _kill_a_worker(group: WatchedGroup[Airflow]) -> None:
    attempts = len(group.logs.attempts("history/0"))
    send(group.driver("history/0"), signal.SIGKILL)
    group.wait_for_attempt("history/0", after=attempts)


def _wait_for_success(group: WatchedGroup[Airflow]) -> None:
    group.wait_without_failure(lambda: set(group.states().values()) == {"success"}, "the group ends green")
    assert group.world.state().status == "FINISHED"
