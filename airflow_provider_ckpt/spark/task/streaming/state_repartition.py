"""Repartitioning of a query's state (R21), by Spark's own ``repartition`` on a copy of the state."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder

WHILE_REPARTITIONING = {
    # with this setting Spark looks up each key before it writes the key, which takes a third of the time. Without it,
    # the next query counts the keys once, when it first loads the state (0.1 s for a million)
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def repartition_state(spark: SparkSession, folder: SparkFolder, wanted: int | None) -> bool:
    """Repartition the state into ``wanted`` partitions. Return True if that was necessary.

    Nothing is done if ``wanted`` is None, if the query has no state, or if the state has that number already.

    The folder must be the attempt's own, its query must not run, and all of its committed batches must be published.
    Spark writes the new state as a batch after the newest committed one.

    A batch that is planned but not committed is deleted first. It is an unfinished repartitioning of an attempt that
    died, or a batch of the query, whose input is planned again.
    """
    current = folder.state_partitions()
    if wanted is None or current is None or current == wanted:
        return False
    folder.delete_planned()
    folder.write_shuffle_partitions(current)
    _ = spark.streams  # registers the coordinator of state, which in a new driver no query has done
    session: Any = spark._jsparkSession.cloneSession()  # queries that start meanwhile must not see its settings
    for key, value in WHILE_REPARTITIONING.items():
        session.conf().set(key, value)
    session.streamingCheckpointManager().repartition(folder.location, wanted, True)
    return True
