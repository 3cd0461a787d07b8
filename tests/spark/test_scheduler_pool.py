"""Scheduler pools: each query has its own."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool

pytestmark = pytest.mark.slow


def test_a_query_has_its_pool_before_its_first_job(spark: SparkSession) -> None:
    root: Any = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    assert root.getSchedulableByName("of a query") is None
    add_pool(spark, "of a query")
    assert root.getSchedulableByName("of a query").schedulingMode().toString() == "FIFO"
    pools = root.schedulableQueue().size()
    add_pool(spark, "of a query")
    assert root.schedulableQueue().size() == pools
