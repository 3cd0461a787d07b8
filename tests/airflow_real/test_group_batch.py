"""Result of a batch job that is lost before it is read, in a whole Airflow.

The task that made the result waits deferred. It runs the subtask again in its first try, and no task is cleared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.airflow_real.lost_result import (
    DAGS,
    LISTED,
    MAPPED,
    SUBTASKS,
    check_second_run,
    delete_result,
    finish_job,
    hold_reader,
)
from tests.airflow_real.server import Airflow
from tests.airflow_real.watched_group import WatchedGroup
from tests.chaos.world import World

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), MAPPED, history_files=4) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAGS)
        yield running


def test_a_subtask_with_a_lost_result_runs_again_in_its_first_try(airflow: Airflow, world: World) -> None:
    group = WatchedGroup(airflow, world, "orders", "staged", airflow.start_dag("staged"))
    _lose_a_result_and_finish(group, "early/0")
    assert group.tries() == {"plan": 1, "coordinate": 2, **dict.fromkeys(SUBTASKS, 1)}
    reconciled = world.state().reconciled
    assert reconciled is not None
    assert [reset.subtask for reset in reconciled.reset] == ["early/0"], "nothing else ran again"


def test_all_subtasks_run_again_without_batch_recovery(airflow: Airflow, world: World) -> None:
    anew = copy.copy(world)
    anew.variant, anew.job_id = LISTED, LISTED.name
    group = WatchedGroup(airflow, anew, "orders", "anew", airflow.start_dag("anew"))
    _lose_a_result_and_finish(group, "early-0")
    assert group.tries() == {"plan": 1, "coordinate": 2, "early-0": 1, "late": 1, "both": 1}
    assert anew.state().from_scratch_epoch == anew.state().restored_epoch > 1


def _lose_a_result_and_finish(group: WatchedGroup[Airflow], task: str) -> None:
    """Lose the result of ``early/0`` before it is read, and finish the job.

    ``task``: the task that runs ``early/0``.
    """
    with group.logs.watched():
        begun = hold_reader(group, task)
        delete_result(group)
        finish_job(group)
    check_second_run(group, task, begun)
