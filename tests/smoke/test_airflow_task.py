"""A Dag that Airflow runs in this process, with a Spark of its own behind ``spark-submit``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow.support import run_dag

pytestmark = [pytest.mark.smoke, pytest.mark.spark, pytest.mark.airflow, pytest.mark.xdist_group("smoke")]

JOB = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("revenue")
LAKE = job.param("lake")

@job.source(bounded=True)
def orders(read):
    return read.schema("shop STRING, amount LONG").json(f"{LAKE}/raw")

@job.transform(inputs=[orders])
def revenue(rows):
    return rows.groupBy("shop").agg(F.sum("amount").alias("revenue"))

job.sink("table", revenue, FileSink(f"{LAKE}/revenue", format="json"))
"""


def test_an_airflow_task_runs_a_bounded_job_and_returns_its_result(
    airflow_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the process that runs this test imports Airflow, which takes seconds.
    import pendulum
    from airflow.sdk import DAG

    from airflow_provider_ckpt import CheckpointedSparkJobOperator

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    lake = tmp_path / "lake"
    (lake / "raw").mkdir(parents=True)
    (lake / "raw/1.json").write_text('{"shop": "A", "amount": 10}\n{"shop": "B", "amount": 1}\n')
    (lake / "raw/2.json").write_text('{"shop": "A", "amount": 5}\n')
    (tmp_path / "revenue.py").write_text(JOB)
    with DAG("smoke", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        CheckpointedSparkJobOperator(
            task_id="revenue",
            job=f"{tmp_path / 'revenue.py'}:job",
            job_id="revenue",
            job_params={"lake": str(lake)},
            root=str(tmp_path / "root"),
            ckpt_conn_id=None,
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.log.level": "WARN"},
        )
    dag_run, tasks = run_dag(dag)
    assert (dag_run.state, tasks["revenue"].state) == ("success", "success")
    assert tasks["revenue"].xcom_pull(task_ids="revenue") == {
        "job_id": "revenue",
        "status": "FINISHED",
        "epoch": 1,
        "checkpoint": 1,
        "released": 1,
        "finished_operators": ["orders", "revenue", "table"],
    }
    lines = [line for file in (lake / "revenue").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(map(json.loads, lines), key=lambda row: str(row["shop"])) == [
        {"shop": "A", "revenue": 15},
        {"shop": "B", "revenue": 1},
    ]
