"""Three Dags for every day: a batch of one day's files, one that another job reads before it goes, and an endless job
that each Dag run continues.

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

# A batch of a day. Every Dag run is a job of its own, which reads that day's folder and writes that day's folder.
# A retry goes on where the try before was. A day is done again by clearing its task: "restart" makes it another job,
# and the job file's mode="overwrite" lets that job's release replace what the day had. A backfill is many such Dag
# runs, side by side: no two of them share a job or a folder. What the job had under the root is deleted behind it; one
# that has not FINISHED is kept, for whoever clears its task. A teardown does not decide whether the run has failed;
# without setups= it is not what makes a cleared task run its job again.
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

# A batch in two jobs: what the first one prepares is kept for those behind it (persist=True), as many as there are, and
# goes with it at the end. Its reader is told which job that was by the task before.
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
# before the next one is due. Two runs at once would take the job from each other: max_active_runs=1. A cleared run
# goes on with the job ("resume", the default), it does not do its day again.
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
    # Beside it: what arrived until the Dag run was due is in the lake.
    CheckpointSensor(
        task_id="until_now",
        job_task_id="feed",
        since="{{ dag_run.run_after }}",
        deferrable=True,
        poke_interval=10,
    )
