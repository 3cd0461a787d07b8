"""Small batch job. A split of it fails when it is read for the first time."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job

BASE = Path(os.environ["CKPT_CHAOS_BASE"])

job = Job("once_failing")


@job.source(bounded=True, splits=["first", "second", "third", "fourth"], parallelism=2, max_splits_per_batch=1)
def history(read: DataFrameReader, name: str) -> DataFrame:
    """Read a split. The job is planned with the columns of the first split."""
    if name == "third" and not (BASE / "failed").exists():
        (BASE / "failed").touch()
        raise OSError("the database does not answer")
    return SparkSession.active().range(10).withColumn("part", F.lit(name))


@job.transform(inputs=[history])
def doubled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


job.sink("out", doubled, FileSink(str(BASE / "out")))
