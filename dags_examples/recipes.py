"""Three everyday Dags: a daily batch of files, a batch in two jobs, and an endless job that each Dag run continues.

Need the connections ``ckpt_default`` (the checkpoint root) and ``spark_default``, and the variable ``shop_lake``: a
folder with ``raw/day=<date>`` for the first and ``raw/live`` for the second.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedJobCleanupOperator, CheckpointedSparkJobOperator, CheckpointSensor

START = pendulum.datetime(2026, 1, 1)
LAKE = "{{ var.value.shop_lake }}"
SMALL = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.log.level": "WARN"}

# A batch of a day. Every Dag run is a job of its own, which reads that day's folder and writes that day's folder. A
# retry resumes the previous try. To repeat a day, clear its task: "restart" makes it another job, and the job file's
# mode="overwrite" lets that job's release replace the day's rows. A backfill is many such Dag runs at once: no two of
# them share a job or a folder. A FINISHED job's data under the root is deleted at the end. An unfinished job is kept,
# so that its task can be cleared. A teardown does not decide whether the run has failed. Without setups= a cleared task
# does not make it run again.
with DAG("daily_revenue", schedule="@daily", start_date=START, catchup=False, tags=["ckpt"]) as daily_revenue:
    revenue = CheckpointedSparkJobOperator(
        task_id="revenue",
        job="jobs/daily_revenue_job.py:job",
        job_params={"lake": LAKE, "day": "{{ ds }}"},
        on_clear="restart",
        retries=3,
        retry_delay=timedelta(minutes=1),
        conf=SMALL,
    )
    clean = CheckpointedJobCleanupOperator(task_id="clean", job_task_id="revenue")
    revenue >> clean.as_teardown()

# A batch in two jobs: the result of the first job is kept for all its readers (persist=True), and deleted at the end.
# The task of the first job passes the job's id to the reader.
with DAG("prepared_orders", schedule="@daily", start_date=START, catchup=False, tags=["ckpt"]) as prepared_orders:
    prepare = CheckpointedSparkJobOperator(
        task_id="prepare",
        job="jobs/prepared_orders_job.py:job",
        job_params={"lake": LAKE, "day": "{{ ds }}"},
        on_clear="restart",
        retries=3,
        conf=SMALL,
    )
    large = CheckpointedSparkJobOperator(
        task_id="large",
        job="jobs/large_orders_job.py:job",
        job_params={"lake": LAKE, "day": "{{ ds }}", "prepared": "{{ ti.xcom_pull('prepare')['job_id'] }}"},
        on_clear="restart",
        retries=3,
        conf=SMALL,
    )
    forget = CheckpointedJobCleanupOperator(task_id="forget", job_task_id="prepare", persisted=True)
    prepare >> large >> forget.as_teardown()

# An endless job in daily pieces. Every Dag run continues the same job (job_id) and stops it with a savepoint a little
# before the next run is due. Two runs at once would take the job from each other: max_active_runs=1. A cleared run
# resumes the job ("resume", the default); it does not repeat its day.
with DAG(
    "orders_feed", schedule="@daily", start_date=START, catchup=False, max_active_runs=1, tags=["ckpt"]
) as orders_feed:
    CheckpointedSparkJobOperator(
        task_id="feed",
        job="jobs/orders_feed_job.py:job",
        job_id="orders_feed",
        job_params={"lake": LAKE},
        checkpoint_interval=timedelta(seconds=30),
        stop_at="{{ dag_run.run_after + macros.timedelta(hours=23, minutes=50) }}",
        retries=3,
        retry_delay=timedelta(minutes=1),
        conf=SMALL,
    )
    # Next to it: all rows that arrived until the Dag run was due are in the lake.
    CheckpointSensor(
        task_id="until_now",
        job_task_id="feed",
        since="{{ dag_run.run_after }}",
        deferrable=True,
        poke_interval=10,
    )
