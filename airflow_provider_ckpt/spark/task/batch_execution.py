"""Spark's execution of the micro-batch for which ``foreachBatch`` runs in this thread."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.task.errors import QueryFailedError


def execution_of_batch(spark: SparkSession, vertex: str) -> Any:
    """Return the ``IncrementalExecution``. The frame that ``foreachBatch`` gets does not lead to it.

    Args:
        spark: the session that the query was started with. The batch has a copy of it.
        vertex: named in the error.

    Raises QueryFailedError.
    """
    streams: Any = spark._jsparkSession.streams()
    running = streams.get(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
    if running is None:
        raise QueryFailedError(vertex=vertex, cause="its micro-batch does not name its query")
    return running.streamingQuery().lastExecution()
