"""History and a live feed in one Spark job, and a second Dag that continues when that job's last checkpoint is
released.

Needs the connections ``ckpt_default`` (the checkpoint root) and ``spark_default``, and the variable ``flights_lake``: a
folder with ``raw/history`` and ``raw/live``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_ckpt import CheckpointedSparkJobOperator, CheckpointSensor

JOB_ID = "flights_2013"

with DAG("flights", schedule=None, catchup=False, tags=["ckpt"]):
    # Runs until a user ends the year: `ckpt drain flights_2013 --root …`, or CheckpointHook().drain("flights_2013").
    CheckpointedSparkJobOperator(
        task_id="clean",
        job="jobs/flights_job.py:job",
        job_id=JOB_ID,
        checkpoint_interval=timedelta(seconds=2),
        retries=3,
        retry_delay=timedelta(seconds=3),
        env_vars={"FLIGHTS_LAKE": "{{ var.value.flights_lake }}"},
        conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.log.level": "WARN"},
    )

with DAG("flights_report", schedule=None, catchup=False, tags=["ckpt"]):

    @task
    def count_by_month(lake: str, seen: Any) -> dict[str, int]:
        """Return the released flights by month. ``seen`` is the sensor's result."""
        from collections import Counter
        from pathlib import Path

        import pyarrow.parquet as pq

        from airflow_provider_ckpt import read_manifests

        folder = Path(lake, "flights")
        counts: Counter[str] = Counter()
        for manifest in read_manifests(str(folder), seen["job_id"], "flights_table"):
            for file in manifest.files:
                counts[file.path.split("/")[0]] += pq.read_metadata(folder / file.path).num_rows
        return dict(sorted(counts.items()))

    released = CheckpointSensor(task_id="released", job_id=JOB_ID, checkpoint="final", deferrable=True, poke_interval=2)
    count_by_month("{{ var.value.flights_lake }}", released.output)
