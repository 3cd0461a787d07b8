"""Spark's execution of the current micro-batch, with its late rows and event times."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.spark.query.analysed_plan import nodes_from
from airflow_provider_ckpt.spark.query.event_time import OBSERVED
from airflow_provider_ckpt.spark.task.errors import QueryFailedError

_LATE_ROWS = "numRowsDroppedByWatermark"
"""Name of a stateful operator's metric: the number of rows older than the watermark."""
_ROWS, _NEWEST, _AHEAD, _WITHOUT, _BEFORE_1970 = range(5)
"""Indexes of the columns in the observed event times of an input."""


def execution_of_batch(spark: SparkSession, vertex: str) -> Any:
    """Return Spark's ``IncrementalExecution`` of the current micro-batch, which its frame does not show.

    ``spark`` is the session with which the query was started. The batch runs in a copy of this session.

    Raises QueryFailedError.
    """
    streams: Any = spark._jsparkSession.streams()
    running = streams.get(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
    if running is None:
        raise QueryFailedError(vertex=vertex, cause="its micro-batch does not name its query")
    return running.streamingQuery().lastExecution()


def late_rows_of_batch(spark: SparkSession, vertex: str) -> int:
    """Return the number of rows that the stateful operators of this micro-batch have dropped as late.

    Call this after the output is written. An aggregation counts dropped rows after each task has aggregated its input,
    so more input rows may have been dropped.
    """
    plan = execution_of_batch(spark, vertex).executedPlan()
    return sum(_late_rows(node) for node in nodes_from(plan))


def _late_rows(node: Any) -> int:
    metric = node.metrics().get(_LATE_ROWS)
    return int(metric.get().value()) if metric.isDefined() else 0


def source_times_of_batch(spark: SparkSession, vertex: str) -> dict[str, SourceTimes]:
    """Return input → event times, for the inputs with rows in this micro-batch. Call it after the output is written."""
    metrics = execution_of_batch(spark, vertex).observedMetrics().iterator()
    times: dict[str, SourceTimes] = {}
    while metrics.hasNext():
        metric = metrics.next()
        kind, _, name = str(metric._1()).partition(" ")
        if kind == OBSERVED and metric._2().getLong(_ROWS):
            delay, _, uid = name.partition(" ")
            times[uid] = _times(metric._2(), int(delay))
    return times


def _times(row: Any, delay: int) -> SourceTimes:
    return SourceTimes(
        newest=None if row.isNullAt(_NEWEST) else int(row.getLong(_NEWEST)),
        delay=delay,
        last_row_at=round(time.time(), 3),
        ahead=int(row.getLong(_AHEAD)),
        without=int(row.getLong(_WITHOUT)),
        before_1970=int(row.getLong(_BEFORE_1970)),
    )
