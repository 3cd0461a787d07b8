"""Upgrade of a job within its task. Airflow sees no end, and a retry resumes the new version."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_real.server import Airflow
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.evidence import Evidence
from tests.chaos.released import check_exactly_once, manifests, read_rows, rows
from tests.chaos.world import JOBS, SMALL, Variant, World
from tests.support.processes import parent, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1500)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"))
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
SECOND = """

@job.transform(inputs=[doubled])
def every_third(rows: DataFrame) -> DataFrame:
    return rows.where("id % 3 = 0")


job.sink("thirds", every_third, FileSink(f"{BASE}/thirds"))
"""
DAGS = """
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedJobUpgradeOperator, CheckpointedSparkJobOperator, CheckpointSensor

with DAG("orders", schedule=None):
    CheckpointedSparkJobOperator(
        task_id="run",
        job={job!r},
        job_id="mixed",
        checkpoint_interval=0.5,
        conf={conf!r},
        retries=2,
        retry_delay=timedelta(seconds=1),
    )

with DAG("upgrade", schedule=None):
    CheckpointedJobUpgradeOperator(task_id="run", job_id="mixed", timeout="5m")

with DAG("waits", schedule=None):
    CheckpointSensor(task_id="run", job_id="mixed", deferrable=True, poke_interval=1, max_checkpoint_age="5m")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), MIXED) as made:
        yield made


@pytest.fixture(scope="module")
def file(world: World) -> Path:
    """Return the job's file, which its author edits."""
    return Path(shutil.copy(JOBS / "mixed.py", world.base / "mixed.py"))


@pytest.fixture(scope="module")
def airflow(world: World, file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {**world.env, "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}'}
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAGS.format(job=f"{file}:job", conf=CONF))
        body = {"connection_id": "ckpt_default", "conn_type": "ckpt", "host": str(world.root)}
        running.post("/api/v2/connections", body)
        yield running


def test_an_upgraded_job_continues_in_its_task_and_is_retried_as_upgraded(
    airflow: Airflow, world: World, file: Path
) -> None:
    with Feeder(world.data, every=1.0):
        waits, run = airflow.start_dag("waits"), airflow.start_dag("orders")
        _released(airflow, world, 1)
        driver = world.state().worker.pid
        assert driver is not None

        file.write_text(file.read_text().replace("job = Job", "job = Jobs"))
        failed = _ended(airflow, "upgrade", airflow.start_dag("upgrade"))
        assert failed["state"] != "success", airflow.task_log("upgrade", "run")[-3000:]
        assert "Jobs" in airflow.task_log("upgrade", "run")
        assert world.state().epoch == 1

        file.write_text(file.read_text().replace("job = Jobs", "job = Job") + SECOND)
        upgraded = _ended(airflow, "upgrade", airflow.start_dag("upgrade"))
        assert upgraded["state"] == "success", _task_logs(airflow)
        _released(airflow, world, 2)
        assert world.state().worker.pid == driver
        assert airflow.task("orders", run, "run")["state"] == "running"
        wait_until(lambda: _pointer(airflow, run)["epoch"] == 2, lambda: f"epoch 2 in {_pointer(airflow, run)}")
        assert _pointer(airflow, run)["outputs"]["thirds"].endswith("/thirds")

        send(parent(parent(driver)), signal.SIGKILL)
        _released(airflow, world, 3)
        assert airflow.task("waits", waits, "run")["state"] == "deferred"
    wait_for_all(world)
    world.drain()
    assert _ended(airflow, "orders", run)["state"] == "success", _task_logs(airflow)
    assert _ended(airflow, "waits", waits)["state"] == "success"
    assert airflow.task("orders", run, "run")["try_number"] == 2
    assert (_pointer(airflow, run)["epoch"], _pointer(airflow, run)["status"]) == (3, "FINISHED")
    evidence = Evidence(world)
    evidence.gather()
    evidence.check()
    check_exactly_once(world)
    _check_thirds(world)


def _check_thirds(world: World) -> None:
    """Assert that the new sink has each row published by the new version once, and no earlier row."""
    later = [
        row["id"]
        for manifest in manifests(world, "out")
        for batch in manifest.batches
        for file in manifest.files
        for row in read_rows(world.base / "out" / file.path)
        if batch >= "0002" and batch.rpartition("-")[2] in file.path and row["id"] % 3 == 0
    ]
    assert later
    assert sorted(row["id"] for row in rows(world, "thirds")) == sorted(later)


def _released(airflow: Airflow, world: World, epoch: int) -> None:
    """Wait until ``epoch`` has released checkpoints after its first ones."""
    seen: set[int] = set()

    def has_released() -> bool:
        if not (world.root / "mixed" / "journal").exists():
            return False
        state = world.state()
        if state.epoch >= epoch:
            seen.add(state.last_released)
        return len(seen) > 2

    wait_until(has_released, lambda: f"a release of epoch {epoch}\n{_task_logs(airflow)}", seconds=400)


def _pointer(airflow: Airflow, run: str) -> dict[str, Any]:
    path = f"/api/v2/dags/orders/dagRuns/{run}/taskInstances/run/state-store/ckpt"
    pointer: dict[str, Any] = airflow.get(path)["value"]
    return pointer


def _ended(airflow: Airflow, dag: str, run: str) -> dict[str, Any]:
    ends = ("success", "failed", "up_for_retry")
    wait_until(
        lambda: airflow.task(dag, run, "run")["state"] in ends,
        lambda: f"the end of {dag}\n{_task_logs(airflow)}",
        seconds=400,
        every=1,
    )
    return airflow.task(dag, run, "run")


def _task_logs(airflow: Airflow) -> str:
    return "\n".join(airflow.task_log(dag, "run")[-3000:] for dag in ("orders", "upgrade", "waits"))
