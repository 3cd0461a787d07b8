"""Pools of Spark's FAIR scheduler. Each query has its own pool for its jobs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def add_pool(spark: SparkSession, name: str, weight: int | None = None) -> str:
    """Add a pool for the query ``name``, and return the pool's name.

    Spark would also make the pool at the first job, but would warn that no file names the pool. The name contains the
    weight, because the weight of an existing pool cannot be changed.
    """
    pool = name if weight is None else f"{name}:{weight}"
    if spark.sparkContext.getConf().get("spark.scheduler.mode", "FIFO").upper() != "FAIR":
        return pool
    jvm: Any = spark._jvm
    root: Any = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    if root.getSchedulableByName(pool) is None:
        scheduler = jvm.org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(pool, scheduler.SchedulingMode.FIFO(), 0, weight or 1))
    return pool
