"""The state of a query is cut into another number of parts (R21): by Spark's own ``repartition``, on a copy of ours."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder

WHILE_CUT = {
    # with it Spark looks up each key before it writes it, whether it is new: a third of the time of a cut. The query
    # that goes on there counts them once, when it first loads the state (0.1 s a million)
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def cut_anew(spark: SparkSession, folder: SparkFolder, wanted: int | None) -> bool:
    """Have the state cut into ``wanted`` parts; returns whether it had to be. Own folder only, of a query that does not
    run, and all that is committed there is published: it makes a batch of its own, behind the newest committed one.

    Done again by the next attempt if this one dies in it: a batch that is planned and not committed, be it half of a
    cut or one of the query, is forgotten first. What it was to read is planned again.
    """
    there = folder.state_partitions()
    if wanted is None or there is None or there == wanted:
        return False
    folder.forget_planned()
    folder.name_shuffle_partitions(there)
    _ = spark.streams  # registers who coordinates state: in a new driver no query has been started yet that would
    apart: Any = spark._jsparkSession.cloneSession()  # what is set there no query sees that starts meanwhile
    for key, value in WHILE_CUT.items():
        apart.conf().set(key, value)
    apart.streamingCheckpointManager().repartition(folder.location, wanted, True)
    return True
