"""Deferred task in a whole Airflow, with its triggerer.

YARN, spark-submit and the driver are fakes. This process writes the journal instead of a driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.cluster_api import YARN_ID, ClusterApi, app
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import FakeSparkSubmit
from tests.airflow_real.server import Airflow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(1500)]

_DAGS = """
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobOperator

for name in ("ends", "killed"):
    with DAG(name, schedule=None):
        CheckpointedSparkJobOperator(
            task_id="run",
            job="pipelines.orders:job",
            job_id=name,
            root={root!r},
            spark_binary={spark_submit!r},
            deferrable=True,
            poll_interval=1,
            retries=2,
            retry_delay=timedelta(seconds=1),
        )
"""


@dataclass
class Site:
    airflow: Airflow
    spark_submit: FakeSparkSubmit
    yarn: ClusterApi
    root: Storage

    def task(self, dag: str, run: str) -> dict[str, Any]:
        return self.airflow.task(dag, run, "run")

    def deferred(self, dag: str, run: str, number: int = 1) -> dict[str, Any]:
        """Wait until try ``number`` is deferred, and return its submission."""

        def is_deferred() -> bool:
            task = self.task(dag, run)
            return (task["state"], task["try_number"]) == ("deferred", number)

        wait_until(
            is_deferred, lambda: f"a deferred task: {self.task(dag, run)}\n{self.log(dag)}", seconds=300, every=1
        )
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/run/state-store/ckpt"
        submission: dict[str, Any] = self.airflow.get(path)["value"]["submission"]
        return submission

    def log(self, dag: str) -> str:
        return self.airflow.task_log(dag, "run")

    def requests(self, job_id: str) -> list[dict[str, Any]]:
        folder = f"{job_id}/requests"
        return [json.loads(self.root.read(f"{folder}/{name}")) for name in self.root.list(folder)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    spark_submit = FakeSparkSubmit(folder / "spark-submit")
    root = open_root(open_storage(folder / "root"))
    with ClusterApi().serving() as yarn:
        yarn.answer({"app": app("RUNNING")})
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.url}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        env = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
        with Airflow(tmp_path_factory.mktemp("airflow"), env) as airflow:
            dags = _DAGS.format(root=root.uri, spark_submit=spark_submit.path)
            (airflow.dags / "dags.py").write_text(dags)
            yield Site(airflow, spark_submit, yarn, root)


def test_a_deferred_task_ends_as_its_job_does(site: Site) -> None:
    site.spark_submit.play(f"Submitted application {YARN_ID}")
    run = site.airflow.start_dag("ends")
    submission = site.deferred("ends", run)
    assert (submission["application_id"], submission["is_seen"]) == (YARN_ID, True)
    writer = start_driver(Journal(site.root, "ends"), submission["attempt"])
    complete(writer, 1, 2)
    end(writer, "FINISHED")
    wait_until(
        lambda: site.task("ends", run)["state"] == "success",
        lambda: f"success\n{site.log('ends')}",
        seconds=300,
        every=1,
    )
    assert site.task("ends", run)["try_number"] == 1
    path = f"/api/v2/dags/ends/dagRuns/{run}/taskInstances/run/xcomEntries/return_value?deserialize=true"
    result = site.airflow.get(path)["value"]
    assert (result["status"], result["released"]) == ("FINISHED", 2)


def test_a_clear_waits_for_the_live_driver_and_mark_failed_stops_it(site: Site) -> None:
    calls = len(site.spark_submit.calls)
    site.spark_submit.play(f"Submitted application {YARN_ID}")
    run = site.airflow.start_dag("killed")
    submission = site.deferred("killed", run)
    start_driver(Journal(site.root, "killed"), submission["attempt"])
    body = {"dry_run": False, "dag_run_id": run, "task_ids": ["run"], "only_failed": False, "reset_dag_runs": True}
    site.airflow.post("/api/v2/dags/killed/clearTaskInstances", body)
    assert site.deferred("killed", run, 2)["tag"] == submission["tag"]
    wait_until(
        lambda: "its driver continues" in site.log("killed"),
        lambda: f"on_kill\n{site.log('killed')}",
        seconds=120,
        every=1,
    )
    assert site.requests("killed") == []
    assert len(site.spark_submit.calls) == calls + 1

    # Airflow would not call on_kill of a trigger that no triggerer runs.
    wait_until(lambda: "run/-1/2 (ID" in site.log("killed"), lambda: f"its trigger\n{site.log('killed')}", every=1)
    site.airflow.patch(f"/api/v2/dags/killed/dagRuns/{run}/taskInstances/run", {"new_state": "failed"})
    wait_until(
        lambda: bool(site.requests("killed")), lambda: f"the request\n{site.log('killed')}", seconds=120, every=0.5
    )
    assert [(request["kind"], request["exit_if_it_fails"]) for request in site.requests("killed")] == [("stop", True)]
