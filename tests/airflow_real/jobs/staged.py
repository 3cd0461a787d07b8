"""Batch job with two bounded sources and a reader of their results.

While ``BASE/hold`` exists, ``late`` does not end, so the result of ``early`` is not read.
"""

from __future__ import annotations

import os
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job

BASE = os.environ["CKPT_CHAOS_BASE"]
SCHEMA = "id long, k long"

job = Job("staged")
OUT = job.param("out", default="staged")


@F.udf(LongType())
def held(number: int) -> int:
    while os.path.exists(f"{BASE}/hold"):
        time.sleep(0.1)
    return number


@job.source(bounded=True)
def early(read: DataStreamReader) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/history")


@job.source(bounded=True)
def late(read: DataStreamReader) -> DataFrame:
    return read.schema(SCHEMA).parquet(f"{BASE}/live").withColumn("id", held("id"))


@job.transform(inputs=[early, late], chain=False)
def both(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


job.sink(OUT, both, FileSink(f"{BASE}/{OUT}"))
