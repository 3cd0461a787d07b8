"""Job of test_end_to_end: history from files and a live topic, to a topic and to files."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job, KafkaSink

BASE, SERVERS = os.environ["KAFKA_JOB_BASE"], os.environ["KAFKA_JOB_SERVERS"]
LIVE, OUT = os.environ["KAFKA_JOB_LIVE"], os.environ["KAFKA_JOB_OUT"]
ROW = "id LONG, k LONG"

job = Job("both")


@job.source(bounded=True, max_files_per_trigger=1)
def history(read: Any) -> DataFrame:
    return read.schema(ROW).parquet(f"{BASE}/history")  # type: ignore[no-any-return]


@job.source
def live(read: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": SERVERS, "subscribe": LIVE, "startingOffsets": "earliest"}
    frame = read.format("kafka").options(**given).option("maxOffsetsPerTrigger", 20).load()
    row = F.from_json(F.col("value").cast("string"), ROW)
    return frame.select(row["id"].alias("id"), row["k"].alias("k"))  # type: ignore[no-any-return]


@job.transform(inputs=[history, live])
def rows(both: DataFrame) -> DataFrame:
    return both


@job.transform(inputs=[rows])
def records(all_rows: DataFrame) -> DataFrame:
    return all_rows.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("id", "k")).alias("value"))


job.sink("topic", records, KafkaSink(SERVERS, OUT, f"{BASE}/staging", transaction_timeout=60))
job.sink("out", records, FileSink(f"{BASE}/out"))
