"""Spark's execution of the micro-batch that is calling ``foreachBatch`` in this thread."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.task.errors import QueryFailedError


def execution_of_batch(spark: SparkSession, vertex: str) -> Any:
    """Return the ``IncrementalExecution``. The frame that ``foreachBatch`` is given does not lead to it.

    ``spark``: the session that the query was started with; the batch has a copy. Raises QueryFailedError.
    """
    streams: Any = spark._jsparkSession.streams()
    running = streams.get(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
    if running is None:
        raise QueryFailedError(vertex=vertex, cause="its micro-batch does not say which query it belongs to")
    return running.streamingQuery().lastExecution()
