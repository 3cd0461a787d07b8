"""W7: a group whose triggerers, and thus its JobMaster, are gone for longer than its workers continue alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow_real.deployment import Deployment
from tests.airflow_real.watched_group import WatchedGroup
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant, World
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.airflow_real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(initdb() is None, reason=NOT_INSTALLED),
]

JOB = Path(__file__).parent / "jobs" / "grouped.py"
GROUPED = Variant("grouped", "grouped.py", ("out",))
SUBTASKS = {"history/0", "history/1", "doubled/0"}
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
DAG = f"""
from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

with DAG("shop", schedule=None, default_args={{"retries": 0}}):
    CheckpointedSparkJobGroup(
        "orders",
        job={f"{JOB}:job"!r},
        job_id="grouped",
        checkpoint_interval=1,
        stop_grace=20,
        silence="20s",
        poll_interval=2,
        spark={{"conf": {CONF!r}}},
    )
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), GROUPED, history_files=250) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    with PostgreSQL() as postgres, Deployment(tmp_path_factory.mktemp("airflow"), env, postgres.url) as running:
        (running.dags / "dags.py").write_text(DAG)
        yield running


def test_w7_subtasks_wait_for_a_triggerer_without_failing_a_try(airflow: Deployment, world: World) -> None:
    """No task has a second try."""
    group = WatchedGroup(airflow, world, "orders", "shop", airflow.start_dag("shop"))
    with group.logs.watched():
        with Feeder(world.data, every=2.0):
            group.wait_for_release("the job runs")
            wait_until(lambda: group.states()["coordinate"] == "deferred", group.logs_text, seconds=60)
            before = world.state()
            for triggerer in airflow.triggerers:
                triggerer.kill()
            _wait_for_deferrals(group)
            assert world.state().epoch == before.epoch
            airflow.triggerers[0].start()
            group.wait_for_release("behind the return of one triggerer", epoch=before.epoch)
            assert world.state().deployment == before.deployment, "nobody has planned again"
        wait_for_all(world)
        world.drain()
        _wait_for_success(group)
    assert world.state().status == "FINISHED"
    begun = {name: len(group.logs.attempts(name)) for name in SUBTASKS}
    assert min(begun.values()) > 2, f"the planner, and a worker before the wait and another one behind it: {begun}"
    group.logs.check()
    check_exactly_once(world)
    assert set(group.tries().values()) == {1}, group.tries()


def _wait_for_deferrals(group: WatchedGroup[Deployment]) -> None:
    def are_deferred() -> bool:
        states = group.states()
        return {states[name] for name in SUBTASKS} == {"deferred"}

    wait_until(are_deferred, lambda: f"the end of the workers' patience\n{group.logs_text()}", seconds=300, every=1)


def _wait_for_success(group: WatchedGroup[Deployment]) -> None:
    over = {"success", "failed", "upstream_failed"}
    wait_until(
        lambda: set(group.states().values()) <= over, lambda: f"the end: {group.logs_text()}", seconds=300, every=1
    )
    assert set(group.states().values()) == {"success"}, group.logs_text()
