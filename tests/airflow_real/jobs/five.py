"""Five vertices: two sources read by splits, a live feed, and two sinks.

Both bounded sources read the same files, so each sink gets every row. While ``BASE/slow`` exists each split takes long,
so that kills hit a split in progress.
"""

from __future__ import annotations

import os
import time

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]
SCHEMA = "id long, k long"
ROW_SECONDS = 0.15

job = Job("five")


@F.udf(LongType())
def slowly(number: int) -> int:
    if os.path.exists(f"{BASE}/slow"):
        time.sleep(ROW_SECONDS)
    return number


def files() -> list[str]:
    return sorted(name for name in os.listdir(f"{BASE}/history") if name.endswith(".parquet"))


def rows_of(read: DataFrameReader, name: str) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/history/{name}").withColumn("id", slowly("id"))


@job.source(bounded=True, splits=files, parallelism=2)
def history(read: DataFrameReader, name: str) -> DataFrame:
    return rows_of(read, name)


@job.source(bounded=True, splits=files, parallelism=1)
def archive(read: DataFrameReader, name: str) -> DataFrame:
    return rows_of(read, name)


@job.source(max_files_per_trigger=10)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/live")


@job.transform(inputs=[history, live])
def orders(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


@job.transform(inputs=[archive, live])
def cold(rows: DataFrame) -> DataFrame:
    return rows.withColumn("thrice", F.col("id") * 3)


job.sink("lake", orders, FileSink(f"{BASE}/lake"))
job.sink("cellar", cold, FileSink(f"{BASE}/cellar"))
