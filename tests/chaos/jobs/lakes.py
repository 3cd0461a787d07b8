"""A job that writes history and a live feed into two tables and a folder. No second run can repeat a row's value."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import DeltaSink, FileSink, IcebergSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]
CATALOG = {"type": "sql", "uri": f"sqlite:///{BASE}/catalog.db", "warehouse": f"file://{BASE}/warehouse"}

job = Job("lakes")


@job.source(bounded=True, max_files_per_trigger=1)
def history(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/history")


@job.source(max_files_per_trigger=10)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/live")


@job.transform(inputs=[history, live])
def doubled(rows: DataFrame) -> DataFrame:
    return rows.select("id", "k", F.rand().alias("luck"), F.current_timestamp().alias("at"))


job.sink("delta", doubled, DeltaSink(f"{BASE}/delta"))
job.sink("iceberg", doubled, IcebergSink("lake.orders", catalog=CATALOG))
job.sink("out", doubled, FileSink(f"{BASE}/out"))
