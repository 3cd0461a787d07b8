"""Job as a group of tasks in an Airflow. Parts of Airflow and of the job are killed one after the other.

Each subtask has its own Spark, either in its worker's process or as an application of a standalone cluster.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow_real.component import Component
from tests.airflow_real.deployment import Deployment
from tests.airflow_real.watched_group import WatchedGroup
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant, World
from tests.cluster.standalone import ONE_EXECUTOR, Standalone
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb
from tests.support.processes import is_alive, send
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.airflow_real,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(initdb() is None, reason=NOT_INSTALLED),
]

JOB = Path(__file__).parent / "jobs" / "five.py"
FIVE = Variant("five", "five.py", ("lake", "cellar"))
SUBTASKS = {"history/0", "history/1", "archive/0", "live/0", "orders/0", "cold/0"}
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"} | {"spark.ui.enabled": "true"}
DAGS = """
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup, CheckpointSensor

with DAG("shop", schedule=None, default_args={"retries": 20, "retry_delay": timedelta(seconds=1)}):
    CheckpointedSparkJobGroup(
        "orders",
        job=job,
        job_id="five",
        checkpoint_interval=1,
        stop_grace=20,
        spark={"conf": CONF},
    )

with DAG("waits", schedule=None, default_args={"retries": 0}):
    CheckpointSensor(task_id="final", job_id="five", deferrable=True, poke_interval=1)
    CheckpointSensor(task_id="history", job_id="five", finished="history", deferrable=True, poke_interval=1)
"""


@pytest.fixture(scope="module", params=["local", "cluster"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone | None]:
    """Yield a standalone cluster, or None for local Sparks."""
    if request.param == "local":
        yield None
        return
    with Standalone(tmp_path_factory.mktemp("cluster"), cores=len(SUBTASKS) // 2) as running:
        yield running


@pytest.fixture(scope="module")
def world(cluster: Standalone | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), FIVE, history_files=120) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(cluster: Standalone | None, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    env = {
        **world.env,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "local[1]" if cluster is None else cluster.url}
        ),
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{world.root}"}}',
    }
    conf = CONF if cluster is None else CONF | ONE_EXECUTOR
    with PostgreSQL() as postgres, Deployment(tmp_path_factory.mktemp("airflow"), env, postgres.url) as running:
        (running.dags / "dags.py").write_text(f"job, CONF = {f'{JOB}:job'!r}, {conf!r}\n{DAGS}")
        yield running


def test_a_group_succeeds_and_releases_each_row_once_after_any_kill(
    airflow: Deployment, world: World, cluster: Standalone | None
) -> None:
    slow, killed = world.base / "slow", Counter[str]()
    slow.touch()
    waits, run = airflow.start_dag("waits"), airflow.start_dag("shop")
    group = WatchedGroup(airflow, world, "orders", "shop", run)
    with group.logs.watched():
        with Feeder(world.data, every=2.0):
            group.wait_for_release("the job runs")
            _wait_for_jobmaster_in_triggerer(group)
            assert {name for name in group.states() if "/" in name} == SUBTASKS
            _check_links(group)
            deployment = world.state().deployment
            if cluster is not None:
                _kill_an_executor(group, cluster)
            _kill_a_worker(group, killed)
            _kill_the_jobmaster(group, killed)
            _wait_for_jobmaster_in_triggerer(group)
            _kill_a_triggerer(group, waits)
            _kill_the_scheduler(group, killed)
            _wait_for_jobmaster_in_triggerer(group)
            _freeze_a_triggerer(group, waits)
            assert world.state().deployment == deployment, "nobody has planned again"
            slow.unlink()
        wait_for_all(world)
        world.drain()
        _wait_for_success(airflow, {"shop": run, "waits": waits})
    assert world.state().status == "FINISHED"
    unseen = [name for name in SUBTASKS if len(group.logs.attempts(name)) < 2 or not group.logs.batches(name)]
    assert not unseen, f"each has published, and has begun again: {unseen}"
    group.logs.check()
    check_exactly_once(world)
    more = {name: number - 1 for name, number in group.tries().items() if number - 1 > killed[name]}
    assert not more, f"tried again, with no kill: {more}; killed: {killed}"
    assert {airflow.task("waits", waits, name)["try_number"] for name in ("final", "history")} == {1}


def _wait_for_jobmaster_in_triggerer(group: WatchedGroup[Deployment]) -> None:
    """Wait until a triggerer runs the JobMaster. Otherwise the kills of triggerers would not affect the job."""
    wait_until(
        lambda: group.states()["coordinate"] == "deferred" and group.triggerer_with_jobmaster() is not None,
        lambda: f"the JobMaster in a triggerer\n{group.logs_text()}",
        seconds=60,
    )


def _check_links(group: WatchedGroup[Deployment]) -> None:
    """Assert that each subtask has its own Spark."""
    links = {name: group.links(name) for name in SUBTASKS}
    assert len({task_links["Spark UI"] for task_links in links.values()}) == len(SUBTASKS), links
    assert all(f"{task_links['Spark UI']}".startswith("http://") for task_links in links.values()), links
    # no browser follows a link to a local folder
    assert not any(task_links.get("Output") for task_links in links.values()), links


def _kill_an_executor(group: WatchedGroup[Deployment], cluster: Standalone) -> None:
    """Kill an executor. Spark starts another one, and no Airflow task notices."""
    wait_until(lambda: len(cluster.executors()) == len(SUBTASKS), group.logs_text, seconds=200)
    lost = cluster.kill_an_executor()
    wait_until(lambda: not is_alive(lost), "the end of the executor")
    group.wait_for_release("after an executor's death")


def _kill_a_worker(group: WatchedGroup[Deployment], killed: Counter[str]) -> None:
    before = group.world.state()
    attempts = len(group.logs.attempts("history/0"))
    send(group.driver("history/0"), signal.SIGKILL)
    killed["history/0"] += 1
    group.wait_for_attempt("history/0", after=attempts)
    group.wait_for_release("after the worker's death")
    after = group.world.state()
    assert after.deployment == before.deployment, "nobody has planned again"
    if group.triggerer_with_jobmaster() is None:  # on a busy machine triggerers take the JobMaster from each other
        assert after.epoch == before.epoch, "the JobMaster has not noticed more than a subtask's failure"


def _kill_the_jobmaster(group: WatchedGroup[Deployment], killed: Counter[str]) -> None:
    """Kill the JobMaster. In its task this costs a try; in a triggerer it does not."""
    epoch, triggerer = group.world.state().epoch, group.triggerer_with_jobmaster()
    send(group.jobmaster(), signal.SIGKILL)
    if triggerer is None:
        killed["coordinate"] += 1
    group.wait_for_release("after the JobMaster's death", epoch=epoch)
    if triggerer is not None:
        wait_until(lambda: triggerer.has_ended, lambda: f"the end of a triggerer\n{triggerer.tail()}")
    group.airflow.wait_for_triggerers()


def _kill_a_triggerer(group: WatchedGroup[Deployment], waits: str) -> None:
    epoch, victim = _epoch_to_pass(group), _busy_triggerer(group, waits)
    victim.kill()
    _wait_for_successor(group, waits, victim)
    group.wait_for_release("after the triggerer's death", epoch=epoch)
    group.airflow.wait_for_triggerers()


def _kill_the_scheduler(group: WatchedGroup[Deployment], killed: Counter[str]) -> None:
    """Kill the scheduler. Its tasks continue.

    The next scheduler cannot adopt them. It starts each of them again, and the older process ends once it is notified.
    """
    running = {name: number for name, number in group.tries().items() if group.states()[name] == "running"}
    group.airflow.scheduler.kill_alone()
    group.airflow.scheduler.start()
    killed.update(running.keys())
    group.wait_for_next_tries(running)
    group.wait_for_release("after the scheduler's death")


def _freeze_a_triggerer(group: WatchedGroup[Deployment], waits: str) -> None:
    """Freeze a triggerer. After the thaw it runs next to its successor until it notices the take-over."""
    epoch, victim = _epoch_to_pass(group), _busy_triggerer(group, waits)
    victim.freeze()
    _wait_for_successor(group, waits, victim)
    group.wait_for_release("beside a frozen triggerer", epoch=epoch)
    victim.thaw()
    group.airflow.wait_for_triggerers()
    group.wait_for_release("beside a triggerer that has thawed")
    assert group.airflow.task("waits", waits, "final")["state"] == "deferred"


def _busy_triggerer(group: WatchedGroup[Deployment], waits: str) -> Component:
    """Return the triggerer with the JobMaster, or else the one with the sensor that waits for the job's end."""
    triggerer = group.triggerer_with_jobmaster() or group.airflow.triggerer_of("waits", waits, "final")
    assert triggerer is not None
    return triggerer


def _epoch_to_pass(group: WatchedGroup[Deployment]) -> int:
    """Return the epoch that the next JobMaster must exceed, if the JobMaster runs in a triggerer; else 0."""
    return 0 if group.triggerer_with_jobmaster() is None else group.world.state().epoch


def _wait_for_successor(group: WatchedGroup[Deployment], waits: str, victim: Component) -> None:
    def taken_over() -> bool:
        triggerer = group.airflow.triggerer_of("waits", waits, "final")
        return triggerer is not None and triggerer is not victim

    wait_until(taken_over, lambda: f"another triggerer than {victim.name}\n{group.airflow.tail()}", every=0.5)


def _wait_for_success(airflow: Deployment, runs: dict[str, str]) -> None:
    def states() -> dict[str, str]:
        tasks = [(dag, task) for dag, run in runs.items() for task in airflow.tasks(dag, run)]
        return {f"{dag} {task['task_id']} {task['map_index']}": str(task["state"]) for dag, task in tasks}

    over = {"success", "failed", "upstream_failed"}
    wait_until(lambda: set(states().values()) <= over, lambda: f"the end: {states()}", seconds=300, every=1)
    assert set(states().values()) == {"success"}, states()
