"""A job whose history has a query and a sink of its own; the sink of both sources is one query deeper."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]

job = Job("depths")


@job.source(bounded=True, max_files_per_trigger=1, chain=False)
def history(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/history")


@job.source(max_files_per_trigger=10)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/live")


@job.transform(inputs=[history, live])
def doubled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


job.sink("raw", history, FileSink(f"{BASE}/raw"))
job.sink("out", doubled, FileSink(f"{BASE}/out"))
