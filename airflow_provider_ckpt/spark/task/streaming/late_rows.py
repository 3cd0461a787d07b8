"""Count of the rows that Spark drops because they are later than the watermark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.query.analysed_plan import nodes_from
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch

_METRIC = "numRowsDroppedByWatermark"


def late_rows_of_batch(spark: SparkSession, vertex: str) -> int:
    """Return the number of rows that the stateful operators of this micro-batch have dropped.

    Call this after the output is written. An aggregation drops rows after each task has aggregated its input. So there
    may be more input rows.
    """
    plan = execution_of_batch(spark, vertex).executedPlan()
    return sum(_metric(node) for node in nodes_from(plan))


def _metric(node: Any) -> int:
    found = node.metrics().get(_METRIC)
    return int(found.get().value()) if found.isDefined() else 0
