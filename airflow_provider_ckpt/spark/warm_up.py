"""Runs once what every first micro-batch runs, so that the first real one does not pay for it.

A JVM's first micro-batch takes seconds longer than its tenth: classes are loaded, code is generated, nothing is
compiled. A worker that stands by has the time.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

BATCHES = 3
"""A first real one takes 3.3 times as long as its successor after two without files, 1.5 times after three (after
eight, too)."""


def begin_warm_up(spark: SparkSession, on_warm: Callable[[float], None], *, stateful: bool) -> threading.Thread:
    """:func:`warm_up` in a thread of its own. What it fails with is logged, and nothing depends on it. ``on_warm``:
    called there at its end, with the seconds that it took."""
    thread = threading.Thread(target=_try, args=(spark, on_warm, stateful), name="ckpt-warm-up", daemon=True)
    thread.start()
    return thread


def warm_up(spark: SparkSession, *, stateful: bool) -> None:
    """A query over rows that Spark makes up, which reads nothing and writes nothing of the job's. Where driver and
    executors are one process it goes from files to files, as one over result partitions does; else from nowhere to
    nowhere, since files need a folder that all of them see. ``stateful``: with a state store, for the same reason only
    there."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    folder = tempfile.mkdtemp(prefix="ckpt-warm-up-")
    try:
        if str(spark.sparkContext.master).startswith("local"):
            _through_files(session, f"file://{folder}", stateful)
        else:
            rows = session.readStream.name("rows").format("rate-micro-batch").option("rowsPerBatch", 2).load()
            for _ in range(BATCHES):
                _batch(rows, f"file://{folder}/checkpoint", _nowhere)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _through_files(session: SparkSession, folder: str, stateful: bool) -> None:
    made = session.range(4).selectExpr("id", "CAST(id AS DOUBLE) AS amount")

    def write(frame: DataFrame, batch: int) -> None:
        frame.write.mode("append").parquet(f"{folder}/out")

    for _ in range(BATCHES):
        made.coalesce(1).write.mode("append").parquet(f"{folder}/in")
        reader = session.readStream.name("rows").schema(made.schema).option("recursiveFileLookup", True)
        rows = reader.parquet(f"{folder}/in").where("amount > 1")
        _batch(rows.groupBy("id").count() if stateful else rows, f"{folder}/checkpoint", write)


def _batch(rows: DataFrame, checkpoint: str, write: Callable[[DataFrame, int], None]) -> None:
    """Goes on from the checkpoint, as a query that begins again does."""
    writer = rows.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()


def _nowhere(frame: DataFrame, batch: int) -> None:
    frame.write.format("noop").mode("append").save()


def _try(spark: SparkSession, on_warm: Callable[[float], None], stateful: bool) -> None:
    begun = time.monotonic()
    try:
        warm_up(spark, stateful=stateful)
    except Exception as error:  # the first batch is a cold one then
        log.info("the warm-up of Spark did not work: %s", error)
    else:
        on_warm(time.monotonic() - begun)
