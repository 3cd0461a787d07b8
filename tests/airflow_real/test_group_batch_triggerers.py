"""Result of a batch job that is lost while no triggerer runs.

The JobMaster and the wait of the task that made the result have no process then.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.airflow_real.deployment import Deployment
from tests.airflow_real.lost_result import (
    DAGS,
    MAPPED,
    SUBTASKS,
    check_second_run,
    delete_result,
    finish_job,
    hold_reader,
)
from tests.airflow_real.watched_group import WatchedGroup
from tests.chaos.world import World
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.airflow_real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(initdb() is None, reason=NOT_INSTALLED),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), MAPPED, history_files=4) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    with PostgreSQL() as postgres, Deployment(tmp_path_factory.mktemp("airflow"), env, postgres.url) as running:
        (running.dags / "dags.py").write_text(DAGS)
        yield running


def test_the_next_triggerer_resumes_the_wait_without_failing_a_try(airflow: Deployment, world: World) -> None:
    group = WatchedGroup(airflow, world, "orders", "staged", airflow.start_dag("staged"))
    with group.logs.watched():
        begun = hold_reader(group, "early/0")
        epoch = world.state().epoch
        for triggerer in airflow.triggerers:
            triggerer.kill()
        delete_result(group)
        airflow.triggerers[1].start()
        wait_until(lambda: world.state().epoch > epoch, lambda: f"a JobMaster\n{group.logs_text()}", seconds=200)
        assert group.states()["early/0"] == "deferred"
        finish_job(group)
    check_second_run(group, "early/0", begun)
    assert group.tries() == {"plan": 1, "coordinate": 2, **dict.fromkeys(SUBTASKS, 1)}
