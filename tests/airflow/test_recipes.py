"""Dags of the recipes, run as Airflow runs them, with a real Spark. The second run shows the right rows, too."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.journal import list_jobs
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.sinks.file.manifests import released_files
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from tests.airflow.support import StateStore, context
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "dags_examples"
SECOND = datetime(2026, 1, 2, tzinfo=timezone.utc)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    connections = {"SPARK_DEFAULT": {"conn_type": "spark", "host": "local[1]"}, "CKPT_DEFAULT": {"conn_type": "ckpt"}}
    connections["CKPT_DEFAULT"]["host"] = str(tmp_path / "root")
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_VAR_SHOP_LAKE", str(tmp_path / "lake"))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    return tmp_path / "lake"


@pytest.fixture
def dags() -> dict[str, DAG]:
    spec = importlib.util.spec_from_file_location("recipes_of_this_test", EXAMPLES / "recipes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {dag.dag_id: dag for dag in vars(module).values() if isinstance(dag, DAG)}


def order(lake: Path, folder: str, name: str, *rows: tuple[int, str, float]) -> None:
    (lake / "raw" / folder).mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": number, "shop": shop, "amount": amount}) for number, shop, amount in rows]
    (lake / "raw" / folder / name).write_text("\n".join(lines) + "\n")


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the folder's rows, after checking that listing and manifests name the same files."""
    followed = [Path(file) for file in released_files(str(folder))]
    listed = list(folder.glob("*.json"))
    assert sorted(file.name for file in followed) == sorted(file.name for file in listed)
    parsed = [json.loads(line) for file in listed for line in file.read_text().splitlines()]
    return sorted(parsed, key=lambda row: json.dumps(row))


def test_running_a_day_again_replaces_only_the_rows_of_that_day(
    run: Callable[..., Any], dags: dict[str, DAG], lake: Path
) -> None:
    order(lake, "day=2026-01-01", "a.json", (1, "A", 10.0), (2, "A", 5.0), (3, "B", 1.0))
    order(lake, "day=2026-01-02", "a.json", (4, "A", 7.0))
    dag_run, tasks = run(dags["daily_revenue"], logical_date=SECOND)
    assert (dag_run.state, tasks["clean"].state) == ("success", "success")
    assert tasks["clean"].xcom_pull(task_ids="clean")["was"] == "FINISHED"
    assert [(job.job_id, job.status) for job in jobs(lake)] == [
        (tasks["revenue"].xcom_pull(task_ids="revenue")["job_id"], JobStatus.DELETED)
    ]
    revenue: Any = dags["daily_revenue"].get_task("revenue")
    revenue.job_params = {"lake": str(lake), "day": "2026-01-01"}  # dag.test creates a new Dag run, and clears none
    store, retries = StateStore(), revenue.retries
    first = revenue.execute(context(store, max_tries=retries))["job_id"]
    assert CheckpointHook("ckpt_default").delete(first).was is JobStatus.FINISHED
    assert rows(lake / "revenue" / "day=2026-01-01") == [{"shop": "A", "revenue": 15.0}, {"shop": "B", "revenue": 1.0}]
    order(lake, "day=2026-01-01", "b.json", (5, "B", 2.0))
    revenue.execute(context(store, try_number=2, max_tries=retries + 1, clear_number=1))
    assert rows(lake / "revenue" / "day=2026-01-01") == [{"shop": "A", "revenue": 15.0}, {"shop": "B", "revenue": 3.0}]
    assert rows(lake / "revenue" / "day=2026-01-02") == [{"shop": "A", "revenue": 7.0}]


def test_a_prepared_table_is_read_by_another_job_before_its_deletion(
    run: Callable[..., Any], dags: dict[str, DAG], lake: Path
) -> None:
    order(lake, "day=2026-01-02", "a.json", (1, "A", 100.0), (2, "A", 5.0), (3, "B", 250.0), (3, "B", 250.0))
    dag_run, tasks = run(dags["prepared_orders"], logical_date=SECOND)
    assert (dag_run.state, tasks["forget"].state) == ("success", "success")
    assert rows(lake / "large" / "day=2026-01-02") == [
        {"id": 1, "shop": "A", "amount": 100.0},
        {"id": 3, "shop": "B", "amount": 250.0},
    ]
    assert {job.status for job in jobs(lake)} == {JobStatus.DELETED, JobStatus.FINISHED}
    left = [path for path in (lake.parent / "root").rglob("*.parquet") if path.is_file()]
    assert left == []


def test_dag_runs_that_resume_one_job_release_every_row_once(
    run: Callable[..., Any], dags: dict[str, DAG], lake: Path
) -> None:
    dag = dags["orders_feed"]
    feed: Any = dag.get_task("feed")
    feed.checkpoint_interval = 1
    (lake / "raw" / "live").mkdir(parents=True)
    wanted: list[dict[str, Any]] = []
    for number in (1, 2):
        order(lake, "live", f"{number}.json", (number, "A", 200.0), (number + 10, "B", 5.0))
        wanted.append({"id": number, "shop": "A", "amount": 200.0})
        stopping = threading.Thread(target=_stop_once, args=(lake, list(wanted)))
        stopping.start()
        # dag.test runs one task after the other. A sensor next to the job would wait for a job that waits for it.
        dag_run, tasks = run(dag, run_after=datetime.now(timezone.utc), mark_success_pattern="until_now")
        stopping.join()
        assert dag_run.state == "success"
        assert tasks["feed"].xcom_pull(task_ids="feed")["status"] == "STOPPED"
    assert rows(lake / "large_orders") == wanted
    (state,) = jobs(lake)
    assert (state.job_id, state.epoch) == ("orders_feed", 2)


def jobs(lake: Path) -> list[JobState]:
    return list_jobs(read_root(open_storage(str(lake.parent / "root"))))


def _stop_once(lake: Path, wanted: list[dict[str, Any]]) -> None:
    """Stop the job once its output is complete, as the Dag's ``stop_at`` does in the evening."""
    there = lake / "large_orders"
    wait_until(lambda: there.exists() and _listed(there) == wanted, f"{wanted}", seconds=300)
    CheckpointHook("ckpt_default").stop("orders_feed")


def _listed(folder: Path) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(parsed, key=lambda row: int(row["id"]))
