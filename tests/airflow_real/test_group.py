"""Job as a group of tasks in a whole Airflow. Each subtask is a task, which fails and is retried alone."""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import fold
from tests.airflow_real.server import Airflow
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant, World
from tests.support.processes import command_name, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1500)]

JOB = Path(__file__).parent / "jobs" / "grouped.py"
GROUPED = Variant("grouped", "grouped.py", ("out",))
SPARED = Variant("spared", "grouped.py", ("spared",))
LISTED = Variant("listed", "grouped.py", ("listed",))
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
SUBTASKS = ["history/0", "history/1", "doubled/0"]
ADDED_SUBTASK = "history/2"
"""Subtask added by a rescale."""
DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

with DAG("shop", schedule=None, default_args={{"retry_delay": timedelta(seconds=1)}}):
    CheckpointedSparkJobGroup(
        "orders",
        job={f"{JOB}:job"!r},
        job_id="grouped",
        checkpoint_interval=0.5,
        stop_grace=20,
        spark={{"conf": {CONF!r}}},
        coordinate={{"deferrable": False}},  # `airflow standalone` has one triggerer, and does not begin it again
    )

with DAG("spared", schedule=None, default_args={{"retry_delay": timedelta(seconds=1)}}):
    CheckpointedSparkJobGroup(
        "orders",
        job={f"{JOB}:job"!r},
        job_id="spared",
        job_params={{"out": "spared"}},
        checkpoint_interval=0.5,
        standbys=1,
        spark={{"conf": {CONF!r}}},
    )

with DAG("listed", schedule=None, default_args={{"retry_delay": timedelta(seconds=1)}}):
    CheckpointedSparkJobGroup(
        "orders",
        job={f"{JOB}:job"!r},
        job_id="listed",
        job_params={{"out": "listed"}},
        checkpoint_interval=0.5,
        subtasks=["history", "doubled/0"],
        spark={{"conf": {CONF!r}}},
    )
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), GROUPED, history_files=60) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {**world.env, "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}'}
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAG)
        running.post(
            "/api/v2/connections", {"connection_id": "ckpt_default", "conn_type": "ckpt", "host": str(world.root)}
        )
        yield running


def test_only_a_killed_worker_or_jobmaster_is_retried(airflow: Airflow, world: World) -> None:
    with Feeder(world.data, every=1.0):
        run = airflow.start_dag("shop")
        wait_until(lambda: _all_started(world), lambda: f"history is read by all\n{_task_logs(airflow)}", seconds=400)
        assert {task["rendered_map_index"] for task in _mapped(airflow, run)} == set(SUBTASKS)
        before = _rescaled(airflow, world)
        send(_worker(airflow, "history/0"), signal.SIGKILL)
        wait_until(
            lambda: all(_attempts(world)[name] != before[name] for name in ("history/0", ADDED_SUBTASK)),
            lambda: f"the next attempts\n{_task_logs(airflow)}",
            seconds=200,
        )
        _kill_the_master(airflow, world)
    wait_for_all(world)
    assert _attempts(world)["doubled/0"] == before["doubled/0"]
    world.drain()
    _wait_for_success(airflow, "shop", run)
    tries = {task["rendered_map_index"]: task["try_number"] for task in _mapped(airflow, run)}
    assert tries == {"history/0": 2, "history/1": 1, "doubled/0": 1}
    assert airflow.task("shop", run, "orders.plan")["try_number"] == 1
    assert airflow.task("shop", run, "orders.coordinate")["try_number"] == 2
    assert world.state().status == "FINISHED"
    check_exactly_once(world)


def _rescaled(airflow: Airflow, world: World) -> Mapping[str, str]:
    """Rescale history to three subtasks.

    The Airflow tasks stay, so the first subtask's worker also runs the third one.
    """
    before = _attempts(world)
    JobClient(str(world.root), world.job_id).rescale("history", 3)
    wait_until(lambda: _attempts(world)[ADDED_SUBTASK], lambda: f"a third subtask\n{_task_logs(airflow)}", seconds=200)
    assert world.state().hosts == {ADDED_SUBTASK: "history/0"}
    after = _attempts(world)
    assert {name: after[name] for name in SUBTASKS} == {name: before[name] for name in SUBTASKS}
    return after


def test_marking_coordinate_failed_stops_the_job_and_a_clear_resumes_it(airflow: Airflow, world: World) -> None:
    listed = copy.copy(world)
    listed.variant, listed.job_id = LISTED, LISTED.name
    run = airflow.start_dag("listed")
    wait_until(lambda: _released(listed) > 2, lambda: f"releases\n{_task_logs(airflow, 'listed')}", seconds=400)
    _clear_one_subtask(airflow, listed, run)
    airflow.patch(f"/api/v2/dags/listed/dagRuns/{run}/taskInstances/orders.coordinate", {"new_state": "failed"})
    wait_until(lambda: listed.state().status == "STOPPED", lambda: f"the stop\n{_task_logs(airflow, 'listed')}")
    ends = {"orders.plan": "success", "orders.history": "success", "orders.doubled-0": "success"}
    wait_until(
        lambda: _states(airflow, "listed", run) == {**ends, "orders.coordinate": "failed"},
        lambda: f"the end: {_states(airflow, 'listed', run)}\n{_task_logs(airflow, 'listed')}",
    )
    stopped = listed.state()
    assert stopped.checkpoints[stopped.last_completed].kind == "savepoint"
    clear = {"dry_run": False, "dag_run_id": run, "only_failed": False, "reset_dag_runs": True}
    airflow.post("/api/v2/dags/listed/clearTaskInstances", clear)
    wait_until(
        lambda: _released(listed) > stopped.last_released,
        lambda: f"going on\n{_task_logs(airflow, 'listed')}",
        seconds=400,
    )
    wait_for_all(listed)
    listed.drain()
    _wait_for_success(airflow, "listed", run)
    check_exactly_once(listed)


def test_a_standby_runs_the_subtask_of_a_killed_worker_before_its_retry(airflow: Airflow, world: World) -> None:
    """The retry then becomes the standby, and all tasks succeed."""
    spared = copy.copy(world)
    spared.variant, spared.job_id = SPARED, SPARED.name
    with Feeder(world.data, every=1.0):
        run = airflow.start_dag("spared")
        wait_until(lambda: _all_started(spared), lambda: f"all begun\n{_task_logs(airflow, 'spared')}", seconds=400)
        wait_until(
            lambda: "Spark is warm" in airflow.task_log("spared", "orders.standby-1"),
            lambda: airflow.task_log("spared", "orders.standby-1")[-3000:],
            seconds=400,
        )
        before, tries = _attempts(spared), {task["try_number"] for task in _mapped(airflow, run, "spared")}
        assert tries == {1}
        send(_worker(airflow, "doubled/0"), signal.SIGKILL)
        wait_until(lambda: _attempts(spared)["doubled/0"] != before["doubled/0"], "the next attempt", seconds=60)
        stands_by = "this worker stands by for doubled/0"
        assert stands_by not in airflow.task_log("spared", "orders.subtask"), "a retry was there before"
        wait_until(
            lambda: stands_by in airflow.task_log("spared", "orders.subtask"),
            lambda: f"the retry\n{_task_logs(airflow, 'spared')}",
            seconds=200,
        )
        after = _attempts(spared)
        so_far = spared.state().last_triggered
        wait_until(lambda: _released(spared) > so_far, lambda: f"a release\n{_task_logs(airflow, 'spared')}")
        assert _attempts(spared) == after, "it takes nothing back"
    wait_for_all(spared)
    spared.drain()
    _wait_for_success(airflow, "spared", run)
    check_exactly_once(spared)


def _clear_one_subtask(airflow: Airflow, listed: World, run: str) -> None:
    """Clear one subtask. Only its worker gets a signal; the other workers and the JobMaster do not."""
    before, attempt = listed.state(), _attempts(listed)["doubled/0"]
    clear = {"dry_run": False, "dag_run_id": run, "only_failed": False, "task_ids": ["orders.doubled-0"]}
    airflow.post("/api/v2/dags/listed/clearTaskInstances", clear)
    message = "SIGTERM: leaving at the end of the micro-batch"
    wait_until(lambda: message in airflow.task_log("listed", "orders.doubled-0"), lambda: _task_logs(airflow, "listed"))
    wait_until(
        lambda: _attempts(listed)["doubled/0"] != attempt,
        lambda: f"its next worker\n{_task_logs(airflow, 'listed')}",
        seconds=400,
    )
    so_far = listed.state().last_triggered
    wait_until(lambda: _released(listed) > so_far, lambda: f"a release with it\n{_task_logs(airflow, 'listed')}")
    after = listed.state()
    assert (after.epoch, after.deployment) == (before.epoch, before.deployment)


def _kill_the_master(airflow: Airflow, world: World) -> None:
    """Kill the process of the JobMaster's task. The workers continue meanwhile."""
    state = world.state()
    assert state.worker.pid is not None
    send(state.worker.pid, signal.SIGKILL)
    wait_until(
        lambda: world.state().epoch > state.epoch and world.state().last_released > state.last_triggered,
        lambda: f"a release of the next JobMaster\n{_task_logs(airflow)}",
        seconds=400,
    )
    assert world.state().deployment == state.deployment, "nobody has planned again"


def _wait_for_success(airflow: Airflow, dag: str, run: str) -> None:
    def description() -> str:
        return f"the end: {_states(airflow, dag, run)}\n{_task_logs(airflow, dag)}"

    over = {"success", "failed", "upstream_failed"}
    wait_until(lambda: set(_states(airflow, dag, run).values()) <= over, description, every=1)
    assert set(_states(airflow, dag, run).values()) == {"success"}, description()


def _states(airflow: Airflow, dag: str, run: str) -> dict[str, str]:
    """Return the state of each task instance by task id, with the map index appended for a mapped task."""
    task_instances = airflow.get(f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
    return {f"{task['task_id']}_{task['map_index']}".removesuffix("_-1"): task["state"] for task in task_instances}


def _released(world: World) -> int:
    is_there = (world.root / world.job_id / "journal").exists()
    return world.state().last_released if is_there else 0


def _mapped(airflow: Airflow, run: str, dag: str = "shop") -> list[dict[str, Any]]:
    path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/orders.subtask/listMapped"
    task_instances: list[dict[str, Any]] = airflow.get(path)["task_instances"]
    return task_instances


def _all_started(world: World) -> bool:
    """Return True if each subtask has a worker and some splits are done."""
    if not (world.root / world.job_id / "journal").exists() or world.state().plan is None:
        return False
    attempts = _attempts(world)
    begun = all(attempts[name] and AttemptId.parse(attempts[name]).number > 0 for name in SUBTASKS)
    return begun and sum(split.done for split in world.state().split_progress()) >= 4


def _attempts(world: World) -> Mapping[str, str]:
    """Return the attempt that owns the log of each subtask."""
    attempts = {}
    for name in (*SUBTASKS, ADDED_SUBTASK):
        vertex, _, number = name.partition("/")
        opened = fold(
            TailingLogReader(world.storage, subtask_log_path(world.job_id, vertex, int(number))).records()
        ).opened
        attempts[name] = "" if opened is None else str(opened.attempt)
    return attempts


def _worker(airflow: Airflow, subtask: str) -> int:
    """Return the process id of the Python driver that runs the subtask."""

    def runs_subtask(pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return False  # the process has ended meanwhile
        runs_it = b"--worker" in words and b"--standby" not in words and subtask.encode() in words
        return runs_it and (command_name(pid) or "").startswith("python")

    (driver,) = [pid for pid in airflow.processes() if runs_subtask(pid)]
    return driver


def _task_logs(airflow: Airflow, dag: str = "shop") -> str:
    tasks = ("orders.plan", "orders.subtask", "orders.history", "orders.coordinate")
    return "\n".join(airflow.task_log(dag, name)[-5000:] for name in tasks)
