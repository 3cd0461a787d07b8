"""A job that counts by key over history and a live feed. Its state (RocksDB) must equal the released output."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]
CHAIN = os.environ.get("CKPT_CHAOS_CHAIN", "1") == "1"

job = Job("counts")


@job.source(bounded=True, max_files_per_trigger=1, chain=CHAIN)
def history(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/history")


@job.source(max_files_per_trigger=10)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/live")


@job.transform(inputs=[history, live], output_mode="update")
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("total"))


job.sink("out", counts, FileSink(f"{BASE}/out"))
