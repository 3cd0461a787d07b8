"""Pools of Spark's FAIR scheduler: the jobs of one query are in one of its own."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def add_pool(spark: SparkSession, name: str) -> None:
    """A pool of the FAIR scheduler, as Spark would make it at the first job, with a warning that no file names it."""
    if spark.sparkContext.getConf().get("spark.scheduler.mode", "FIFO").upper() != "FAIR":
        return
    jvm: Any = spark._jvm
    root: Any = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    if root.getSchedulableByName(name) is None:
        scheduler = jvm.org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(name, scheduler.SchedulingMode.FIFO(), 0, 1))
