"""Job that writes the rows of a folder into a sink. ``CKPT_S3_CHAIN=0`` gives the source its own query."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_S3_BASE"]

job = Job("live")


@job.source(chain=os.environ.get("CKPT_S3_CHAIN", "1") == "1")
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/live")


@job.transform(inputs=[live])
def some(rows: DataFrame) -> DataFrame:
    return rows.where("id >= 0")


job.sink("out", some, FileSink(f"{BASE}/out"))
