"""A job of five vertices: two sources with splits, a live one, two sinks.

While ``BASE/slow`` exists, each split takes SPLIT_SECONDS.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import Autoscaler, Controller, FileSink, Job, JobMetrics, Reconfiguration
from tests.workers.jobs.rows import of_split

BASE = Path(os.environ["CKPT_WORKERS_BASE"])
SPLITS = int(os.environ.get("CKPT_WORKERS_SPLITS", "60"))
SPLIT_SECONDS = 8.0


class Weighs(Controller):
    """A controller that doubles the pool weight of orders once a micro-batch of it was measured."""

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        query = metrics.queries.get("orders")
        if query is None or not query.batches or query.settings.pool_weight == 2:
            return None
        return Reconfiguration(f"{query.rows} rows").assign_resources("orders", pool_weight=2)


CONTROLLERS = [
    Autoscaler("history", parallelism=(1, 2), within="10s", polls=1, every="1s", cool_down="1s"),
    Weighs(every="1s", cool_down="1s"),
]
job = Job("five", controllers=CONTROLLERS if "CKPT_WORKERS_CONTROLLED" in os.environ else [])


def rows_of(source: str, split: str) -> DataFrame:
    """Return the rows of a split, and append source, split and process to ``readings.txt``."""
    with open(BASE / "readings.txt", "a") as readings:
        readings.write(f"{source} {split} {os.getpid()}\n")
    if (BASE / "slow").exists():
        time.sleep(SPLIT_SECONDS)
    ids = of_split(source, int(split))
    return SparkSession.active().range(ids.start, ids.stop, 1, 1).select("id", F.lit(source).alias("kind"))


@job.source(bounded=True, splits=[f"{n:03d}" for n in range(SPLITS)], parallelism=1)
def history(read: object, split: str) -> DataFrame:
    return rows_of("history", split)


@job.source(bounded=True, splits=[f"{n:03d}" for n in range(SPLITS)], parallelism=1)
def archive(read: object, split: str) -> DataFrame:
    return rows_of("archive", split)


@job.source(bounded="CKPT_WORKERS_BOUNDED" in os.environ, max_files_per_trigger=50)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, kind string").json(str(BASE / "live"))


@job.transform(inputs=[history, live])
def orders(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


if "CKPT_WORKERS_CHANGED" in os.environ:

    @job.transform(inputs=[archive, live])
    def cold(rows: DataFrame) -> DataFrame:
        return rows.withColumn("thrice", F.col("id") * 3)

else:

    @job.transform(inputs=[archive, live])
    def cold(rows: DataFrame) -> DataFrame:
        return rows


job.sink("lake", orders, FileSink(str(BASE / "lake")))
job.sink("cellar", cold, FileSink(str(BASE / "cellar"), format="json"))
