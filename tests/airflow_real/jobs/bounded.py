"""Batch job with a bounded source read by splits, and another bounded source."""

from __future__ import annotations

import os
import time

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]
SCHEMA = "id long, k long"
ROW_SECONDS = 0.03

job = Job("bounded")


@F.udf(LongType())
def slowly(number: int) -> int:
    """Return the number after a pause, so that history lasts while a worker is killed."""
    time.sleep(ROW_SECONDS)
    return number


def files() -> list[str]:
    return sorted(name for name in os.listdir(f"{BASE}/history") if name.endswith(".parquet"))


@job.source(bounded=True, splits=files, parallelism=2)
def history(read: DataFrameReader, name: str) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/history/{name}").withColumn("id", slowly("id"))


@job.source(bounded=True)
def live(read: DataFrameReader) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/live")


@job.transform(inputs=[history, live])
def doubled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


job.sink("all", doubled, FileSink(f"{BASE}/all"))
