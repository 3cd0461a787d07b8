"""Event times of the rows of a micro-batch, by input of its query."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.spark.query.event_time import OBSERVED
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch

_ROWS, _NEWEST, _AHEAD, _WITHOUT, _BEFORE_1970 = range(5)
"""Columns of a metric."""


def source_times_of_batch(spark: SparkSession, vertex: str) -> dict[str, SourceTimes]:
    """Return the event times of the inputs that had rows in this micro-batch. Call this after its output is written."""
    metrics = execution_of_batch(spark, vertex).observedMetrics().iterator()
    found: dict[str, SourceTimes] = {}
    while metrics.hasNext():
        metric = metrics.next()
        kind, _, name = str(metric._1()).partition(" ")
        if kind == OBSERVED and metric._2().getLong(_ROWS):
            delay, _, uid = name.partition(" ")
            found[uid] = _times(metric._2(), int(delay))
    return found


def _times(row: Any, delay: int) -> SourceTimes:
    return SourceTimes(
        newest=None if row.isNullAt(_NEWEST) else int(row.getLong(_NEWEST)),
        delay=delay,
        last_row_at=round(time.time(), 3),
        ahead=int(row.getLong(_AHEAD)),
        without=int(row.getLong(_WITHOUT)),
        before_1970=int(row.getLong(_BEFORE_1970)),
    )
