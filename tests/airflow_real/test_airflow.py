"""The provider in a whole Airflow: connection form, retries of a killed task, and the deferred sensor."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.airflow_real.server import Airflow
from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.evidence import Evidence
from tests.chaos.released import check_exactly_once, manifests
from tests.chaos.world import JOBS, SMALL, Variant, World
from tests.support.processes import command_name, is_alive, parent, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1500)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"))
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"} | {"spark.ui.enabled": "true"}
DAGS = f"""
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ckpt import CheckpointedSparkJobOperator, CheckpointReleaseTrigger, CheckpointSensor

releases = CheckpointReleaseTrigger(job_id="mixed", sink="out", poll_interval=2)
orders = Asset("orders", watchers=[AssetWatcher(name="releases", trigger=releases)])

with DAG("reads_orders", schedule=[orders], max_active_runs=1, is_paused_upon_creation=False):
    EmptyOperator(task_id="read")

with DAG("orders", schedule=None):
    CheckpointedSparkJobOperator(
        task_id="run",
        job={str(JOBS / "mixed.py:job")!r},
        job_id="mixed",
        checkpoint_interval=0.5,
        conf={CONF!r},
        retries=2,
        retry_delay=timedelta(seconds=1),
    )

with DAG("waits", schedule=None):
    CheckpointSensor(task_id="final", job_id="mixed", deferrable=True, poke_interval=1, max_checkpoint_age="5m")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), MIXED) as made:
        yield made


@pytest.fixture(scope="module")
def airflow(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    env = {**world.env, "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}'}
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAGS)
        body = {"connection_id": "ckpt_default", "conn_type": "ckpt", "host": str(world.root)}
        running.post("/api/v2/connections", body)
        yield running


def test_the_connection_type_has_a_form_and_a_test_button(airflow: Airflow, world: World) -> None:
    (form,) = [hook for hook in airflow.get("/ui/connections/hook_meta") if hook["connection_type"] == "ckpt"]
    assert form["hook_name"] == "Checkpoint root (ckpt)"
    assert form["standard_fields"]["host"]["title"] == "Root URI"
    assert {"endpoint_url", "storage_options"} <= set(form["extra_fields"])
    good = {"connection_id": "try", "conn_type": "ckpt", "host": str(world.root)}
    answer = airflow.post("/api/v2/connections/test", good)
    assert answer["status"] is True, answer
    answer = airflow.post("/api/v2/connections/test", {**good, "host": "/proc/no-such-folder"})
    assert answer["status"] is False, answer


def test_a_killed_task_is_retried_and_fences_its_orphaned_driver(airflow: Airflow, world: World) -> None:
    """R8, and AIRFLOW.md: Airflow does not call on_kill for a task whose process was killed."""
    with Feeder(world.data, every=1.0):
        waits = airflow.start_dag("waits")
        run = airflow.start_dag("orders")
        wait_until(lambda: world.has_left_history(), lambda: f"history finished\n{_task_logs(airflow)}", seconds=300)
        _check_links(airflow, run)
        driver = world.state().worker.pid
        assert driver is not None
        task = parent(parent(driver))
        assert command_name(parent(driver)) == "java"
        send(task, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: world.state().epoch == 2, lambda: f"the retry\n{_task_logs(airflow)}", seconds=400)
        print(f"the retry claimed the job {time.monotonic() - killed:.0f} s after the kill")
        wait_until(lambda: not is_alive(driver), "the end of the orphan", seconds=60)
        of_the_orphan = world.state().last_triggered
        wait_until(lambda: world.state().last_released > of_the_orphan, lambda: f"a release\n{_task_logs(airflow)}")
        print(f"the retry released a checkpoint {time.monotonic() - killed:.0f} s after the kill")
        assert airflow.task("waits", waits, "final")["state"] == "deferred", _task_logs(airflow)
    wait_for_all(world)
    world.drain()
    for dag, dag_run, name in (("orders", run, "run"), ("waits", waits, "final")):
        _succeeds(airflow, dag, dag_run, name)
    assert airflow.task("orders", run, "run")["try_number"] == 2
    _check(airflow, world, run)
    _check_events(airflow, world)


def _check_events(airflow: Airflow, world: World) -> None:
    """Assert that every release with rows is an event, and that each event continues the previous one."""
    rows = sum(manifest.rows for manifest in manifests(world, "out"))

    def payloads() -> dict[int, dict[str, Any]]:
        events = airflow.get("/api/v2/assets/events?limit=500&order_by=timestamp")["asset_events"]
        return {event["extra"]["payload"]["checkpoint"]: event["extra"]["payload"] for event in events}

    wait_until(
        lambda: sum(payload["rows"] for payload in payloads().values()) >= rows, lambda: f"{rows} rows in {payloads()}"
    )
    assert sum(payload["rows"] for payload in payloads().values()) == rows
    ends = sorted(payloads())
    assert [payloads()[end]["after"] for end in ends[1:]] == ends[:-1]
    runs = airflow.get("/api/v2/dags/reads_orders/dagRuns?limit=500")["dag_runs"]
    assert {dag_run["run_type"] for dag_run in runs} == {"asset_triggered"}


def _check(airflow: Airflow, world: World, run: str) -> None:
    log = airflow.task_log("orders", "run")
    assert "Resuming job mixed" in log, log[-4000:]
    assert "finished operators: history" in log, log[-4000:]
    assert "skipped finished operators: history" in log, log[-4000:]
    base = f"/api/v2/dags/orders/dagRuns/{run}/taskInstances/run"
    pointer = airflow.get(f"{base}/state-store/ckpt")["value"]
    assert pointer["status"] == "FINISHED"
    assert pointer["epoch"] == 2
    _check_links(airflow, run)
    evidence = Evidence(world)
    evidence.gather()
    evidence.check()
    check_exactly_once(world)


def _check_links(airflow: Airflow, run: str) -> None:
    links = airflow.get(f"/api/v2/dags/orders/dagRuns/{run}/taskInstances/run/links")["extra_links"]
    assert f"{links['Spark UI']}".startswith("http://"), links
    assert not links.get("Output"), links  # no browser follows a link to a local folder


def _succeeds(airflow: Airflow, dag: str, run: str, name: str) -> None:
    def ended() -> bool:
        return airflow.task(dag, run, name)["state"] in ("success", "failed")

    wait_until(ended, lambda: f"the end of {dag}.{name}\n{_task_logs(airflow)}", every=1)
    assert airflow.task(dag, run, name)["state"] == "success", airflow.task_log(dag, name)[-4000:]


def _task_logs(airflow: Airflow) -> str:
    return "\n".join(airflow.task_log(dag, name)[-3000:] for dag, name in (("orders", "run"), ("waits", "final")))
