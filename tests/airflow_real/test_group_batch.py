"""Result of a batch job that is lost before it is read, in a whole Airflow.

The task that made the result waits deferred. It runs the subtask again in its first try, and no task is cleared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ckpt.storage.layout import partition_path
from tests.airflow_real.server import Airflow
from tests.airflow_real.watched_group import A, WatchedGroup
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant, World
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1800)]

JOB = Path(__file__).parent / "jobs" / "staged.py"
MAPPED, LISTED = Variant("staged", "staged.py", ("staged",)), Variant("anew", "staged.py", ("anew",))
SUBTASKS = {"early/0", "late/0", "both/0"}
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
DAGS = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

FORMS = {{
    "staged": {{}},
    "anew": {{"subtasks": ["early/0", "late", "both"], "batch_recovery": False}},
}}
for name, form in FORMS.items():
    # no task but that of the JobMaster has a second try
    with DAG(name, schedule=None, default_args={{"retries": 0, "retry_delay": timedelta(seconds=1)}}):
        CheckpointedSparkJobGroup(
            "orders",
            job={f"{JOB}:job"!r},
            job_id=name,
            job_params={{"out": name}},
            poll_interval=2,
            spark={{"conf": {CONF!r}}},
            coordinate={{"retries": 1}},
            **form,
        )
"""


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


def test_whoever_made_a_result_that_is_lost_runs_again_in_its_first_try(airflow: Airflow, world: World) -> None:
    group = WatchedGroup(airflow, world, "orders", "staged", airflow.start_dag("staged"))
    _lose_a_result_and_finish(group, "early/0")
    assert group.tries() == {"plan": 1, "coordinate": 2, **dict.fromkeys(SUBTASKS, 1)}
    reconciled = world.state().reconciled
    assert reconciled is not None
    assert [one.subtask for one in reconciled.reset] == ["early/0"], "nothing else ran again"


def test_without_batch_recovery_all_run_again_in_their_first_try(airflow: Airflow, world: World) -> None:
    anew = copy.copy(world)
    anew.variant, anew.job_id = LISTED, LISTED.name
    group = WatchedGroup(airflow, anew, "orders", "anew", airflow.start_dag("anew"))
    _lose_a_result_and_finish(group, "early-0")
    assert group.tries() == {"plan": 1, "coordinate": 2, "early-0": 1, "late": 1, "both": 1}
    assert anew.state().anew_epoch == anew.state().restored_epoch > 1


def _lose_a_result_and_finish(group: WatchedGroup[Airflow], task: str) -> None:
    """Lose the result of ``early/0`` before it is read, and finish the job.

    ``task``: the task that runs ``early/0``.
    """
    with group.logs.watched():
        begun = hold_the_reader(group, task)
        lose_the_result(group)
        let_it_be_read(group)
    check_it_ran_again(group, task, begun)


def hold_the_reader(group: WatchedGroup[A], task: str) -> int:
    """Wait until ``early/0`` has finished and its task waits. Return the number of its attempts so far."""
    (group.world.base / "hold").touch()
    eventually(group, lambda: group.states().get(task) == "deferred", "early/0 has finished")
    before = group.world.state()
    assert (before.status, before.finished) == ("RUNNING", {"early/0"})
    return len(group.logs.attempts("early/0"))


def lose_the_result(group: WatchedGroup[A]) -> None:
    world = group.world
    files = list((world.root / partition_path(world.job_id, "early", 0)).rglob("*.parquet"))
    assert files
    for file in files:
        file.unlink()


def let_it_be_read(group: WatchedGroup[A]) -> None:
    (group.world.base / "hold").unlink()
    eventually(group, lambda: set(group.states().values()) == {"success"}, "the group ends green")
    assert group.world.state().status == "FINISHED"


def check_it_ran_again(group: WatchedGroup[A], task: str, begun: int) -> None:
    """Assert that ``early/0`` ran again after its first ``begun`` attempts, and that each row was released once."""
    attempts = group.logs.attempts("early/0")[begun:]
    assert len({one.epoch for one in attempts}) == 1, "of the next deployment"
    assert len(attempts) == 2, f"its planner's, and a worker's: {attempts}"
    logs = [group.airflow.task_log(group.dag, f"orders.{name}") for name in ("subtask", task)]
    assert "early/0 has to run again, in the deployment" in "".join(logs)
    check_exactly_once(group.world)


def eventually(group: WatchedGroup[A], look: Callable[[], bool], what: str) -> None:
    """Wait until ``look`` is true. Fail at once if a task of the group has failed permanently."""

    def is_so() -> bool:
        failed = {"failed", "upstream_failed"} & set(group.states().values())
        assert not failed, f"{what}\n{group.told()}"
        return look()

    wait_until(is_so, lambda: f"{what}\n{group.told()}", seconds=600, every=0.5)
