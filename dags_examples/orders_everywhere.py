"""History from files and a live Kafka topic, to a table of PostgreSQL, a Delta table and files: a Dag to copy.

Needs the connections ``ckpt_default`` (the checkpoint root), ``spark_default`` and ``shop_db`` (the database), and the
variables ``shop_lake`` (a folder with ``raw/orders``) and ``shop_kafka`` (the brokers). docs/orders-everywhere.md
explains each part.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobOperator, CheckpointSensor

JOB_ID = "orders_everywhere"

# One long-lived job, continued by a Dag run each day from the previous run's savepoint. The first run reads history.
with DAG(
    JOB_ID,
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["ckpt"],
) as orders_everywhere:
    CheckpointedSparkJobOperator(
        task_id="orders",
        job="jobs/orders_everywhere_job.py:job",
        job_id=JOB_ID,
        job_params={"lake": "{{ var.value.shop_lake }}", "servers": "{{ var.value.shop_kafka }}"},
        conn_ids=["shop_db"],  # handed to the driver, and shown nowhere
        packages="org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",  # Spark's own version
        checkpoint_interval=timedelta(seconds=10),
        stop_at="{{ dag_run.run_after + macros.timedelta(hours=23, minutes=50) }}",
        restart_attempts=5,  # a failed query restarts by itself first, while the others continue
        retries=10,
        retry_delay=timedelta(minutes=1),
        conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.log.level": "WARN"},
    )
    # Next to it: every sink shows the rows that arrived until the Dag run was due.
    CheckpointSensor(
        task_id="until_now",
        job_task_id="orders",
        since="{{ dag_run.run_after }}",
        deferrable=True,
        poke_interval=10,
    )
