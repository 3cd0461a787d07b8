"""Pools of Spark's FAIR scheduler: the jobs of one query are in one of its own."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def add_pool(spark: SparkSession, name: str, weight: int | None = None) -> str:
    """A pool of the FAIR scheduler, as Spark would make it at the first job, with a warning that no file names it.
    Returns its name: a pool keeps its weight, so one of another weight is another pool."""
    pool = name if weight is None else f"{name}:{weight}"
    if spark.sparkContext.getConf().get("spark.scheduler.mode", "FIFO").upper() != "FAIR":
        return pool
    jvm: Any = spark._jvm
    root: Any = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    if root.getSchedulableByName(pool) is None:
        scheduler = jvm.org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(pool, scheduler.SchedulingMode.FIFO(), 0, weight or 1))
    return pool
