"""Warm-up of Spark's JVM. The JVM's first micro-batch takes seconds longer than its tenth."""

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
"""Number of micro-batches of a warm-up.

Measured: after two, the first real micro-batch took 3.3 times as long as the next; after three or eight, 1.5 times.
"""


def begin_warm_up(spark: SparkSession, on_warm: Callable[[float], None], *, stateful: bool) -> threading.Thread:
    """Run :func:`warm_up` in a new thread, and call ``on_warm`` with its duration in seconds. Only log a failure."""
    thread = threading.Thread(target=_try, args=(spark, on_warm, stateful), name="ckpt-warm-up", daemon=True)
    thread.start()
    return thread


def warm_up(spark: SparkSession, *, stateful: bool) -> None:
    """Run a query over generated rows, without data of the job.

    On a local master the query reads and writes files, as a query over result partitions does. If ``stateful`` is True,
    the query also has a state store. On a cluster the query uses no files, because driver and executors may have no
    common folder.
    """
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
    """Run one micro-batch. Resume from the checkpoint, as a restarted query does."""
    writer = rows.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()


def _nowhere(frame: DataFrame, batch: int) -> None:
    frame.write.format("noop").mode("append").save()


def _try(spark: SparkSession, on_warm: Callable[[float], None], stateful: bool) -> None:
    begun = time.monotonic()
    try:
        warm_up(spark, stateful=stateful)
    except Exception as error:  # then the first real micro-batch is slow
        log.info("the warm-up of Spark did not work: %s", error)
    else:
        on_warm(time.monotonic() - begun)
