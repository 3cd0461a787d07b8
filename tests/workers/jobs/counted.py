"""A job with a live source; one query marks its rows, another one counts them by key.

``CKPT_WORKERS_MARK``: the mark that another version of the job writes.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job

BASE = Path(os.environ["CKPT_WORKERS_BASE"])

job = Job("counted")


@job.source(max_files_per_trigger=1)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, kind string").json(str(BASE / "live"))


@job.transform(inputs=[live], chain=False)
def marked(rows: DataFrame) -> DataFrame:
    return rows.withColumn("by", F.lit("one"))


@job.transform(inputs=[live], chain=False, output_mode="update")
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy((F.col("id") % 3).alias("k")).agg(F.count("*").alias("n"))


job.sink("lake", marked, FileSink(str(BASE / "lake"), format="json"))
job.sink("cellar", counts, FileSink(str(BASE / "cellar"), format="json"))
