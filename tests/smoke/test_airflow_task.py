"""A Dag that Airflow runs in this process, with a Spark of its own behind ``spark-submit``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.support import run_dag

pytestmark = [pytest.mark.smoke, pytest.mark.spark, pytest.mark.airflow]

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")
LAKE = job.param("lake")

@job.source(bounded=True)
def orders(read):
    return read.schema("shop STRING, amount LONG").json(f"{LAKE}/raw")

@job.transform(inputs=[orders])
def large(rows):
    return rows.where("amount > 100")

job.sink("files", large, FileSink(f"{LAKE}/large", format="json"))
"""


@contextmanager
def logging_restored() -> Iterator[None]:
    """Undo the logging setup of Airflow, which writes to this test's captured output.

    Py4J logs at the end of the process, when that file is closed.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def test_an_airflow_task_runs_a_bounded_job_and_returns_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    lake = tmp_path / "lake"
    (lake / "raw").mkdir(parents=True)
    (lake / "raw/1.json").write_text('{"shop": "A", "amount": 120}\n{"shop": "B", "amount": 1}\n')
    (lake / "raw/2.json").write_text('{"shop": "C", "amount": 340}\n')
    (tmp_path / "orders.py").write_text(JOB)
    with logging_restored():
        state, tasks = run_in_airflow(tmp_path, lake)
        result = tasks["run"].xcom_pull(task_ids="run")
    assert (state, tasks["run"].state) == ("success", "success")
    lines = [line for file in (lake / "large").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(lines) == ['{"shop":"A","amount":120}', '{"shop":"C","amount":340}']
    assert result == {
        "job_id": "orders",
        "status": "FINISHED",
        "epoch": 1,
        "checkpoint": 1,
        "released": 1,
        "finished_operators": ["files", "large", "orders"],
        "late_rows": 0,
        "changed_files": 0,
        "unfit_rows": 0,
        "malformed_rows": 0,
    }


def run_in_airflow(folder: Path, lake: Path) -> tuple[str, Mapping[str, Any]]:
    """Run the job as the task ``run``, and return the state of the Dag run and its task instances.

    Airflow is imported here because the import takes seconds, and other processes collect this file too.
    """
    import pendulum
    from airflow.sdk import DAG
    from airflow.utils import db

    from airflow_provider_ckpt import CheckpointedSparkJobOperator

    db.initdb()
    with DAG("smoke", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        CheckpointedSparkJobOperator(
            task_id="run",
            job=f"{folder / 'orders.py'}:job",
            job_id="orders",
            job_params={"lake": str(lake)},
            root=str(folder / "root"),
            ckpt_conn_id=None,
            conf={"spark.ui.enabled": "false"},
        )
    dag_run, tasks = run_dag(dag)
    return dag_run.state, tasks
