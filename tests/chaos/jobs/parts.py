"""A batch job of five vertices, two of them sources with splits. Each reading of a split is noted with its process."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.storage.opening import open_storage
from tests.chaos.results import SPLITS, Results
from tests.support.storage_steps import stop_at_step

BASE = Path(os.environ["CKPT_CHAOS_BASE"])
ROWS = 10

stop_at_step()
job = Job("parts")
planned = set[str]()


def rows_of(source: str, split: str) -> DataFrame:
    """Return the rows of a split, and note the reading.

    The first call in a process only plans, and reads nothing. ``again.txt`` lists readings of splits whose published
    result still exists.
    """
    root = BASE / "ckpt"
    if source in planned and split in Results(open_storage(str(root)), root).intact(source):
        with open(BASE / "again.txt", "a") as again:
            again.write(f"{os.getpid()} {source} {split}\n")
    planned.add(source)
    with open(BASE / "readings.txt", "a") as readings:
        readings.write(f"{os.getpid()} {source} {split}\n")
    first = (1000 if source == "right" else 0) + int(split[1:]) * ROWS
    rows = SparkSession.active().range(first, first + ROWS, 1, 1)
    return rows.select("id", (F.col("id") % 7).alias("k"), F.lit(source).alias("kind"))


@job.source(bounded=True, splits=SPLITS["left"], parallelism=2)
def left(read: object, split: str) -> DataFrame:
    return rows_of("left", split)


@job.source(bounded=True, splits=SPLITS["right"], parallelism=1)
def right(read: object, split: str) -> DataFrame:
    return rows_of("right", split)


@job.transform(inputs=[left], chain=False)
def clean(rows: DataFrame) -> DataFrame:
    return rows.where("id % 5 > 0")


@job.transform(inputs=[clean, right], chain=False)
def both(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", F.col("id") * 2)


@job.transform(inputs=[both], chain=False)
def report(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k", "kind").agg(F.count("*").alias("n"), F.sum("twice").alias("total"))


job.sink("raw", left, FileSink(str(BASE / "raw")))
job.sink("all", both, FileSink(str(BASE / "all"), format="json"))
job.sink("out", report, FileSink(str(BASE / "out")))
