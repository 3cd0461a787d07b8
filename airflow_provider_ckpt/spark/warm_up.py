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


def begin_warm_up(spark: SparkSession, *, stateful: bool) -> threading.Thread:
    """:func:`warm_up` in a thread of its own. What it fails with is logged, and nothing depends on it."""
    thread = threading.Thread(target=_try, args=(spark, stateful), name="ckpt-warm-up", daemon=True)
    thread.start()
    return thread


def warm_up(spark: SparkSession, *, stateful: bool) -> None:
    """A query over rows that Spark makes up, which reads nothing and writes nothing of the job's: two batches, into
    files where driver and executors are one process, else nowhere. ``stateful``: with a state store; only there, as a
    store needs a folder that all of them see."""
    local = str(spark.sparkContext.master).startswith("local")
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    folder = tempfile.mkdtemp(prefix="ckpt-warm-up-")
    try:
        rows = session.readStream.name("rows").format("rate-micro-batch").option("rowsPerBatch", 2).load()
        if stateful and local:
            rows = rows.groupBy("value").count()
        writer = rows.writeStream.outputMode("update").option("checkpointLocation", f"file://{folder}/checkpoint")
        for _ in range(2):  # the second one goes on from a checkpoint, as a real one does
            write = _write(f"file://{folder}/rows" if local else None)
            writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(path: str | None) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        if path is None:
            frame.write.format("noop").mode("append").save()
        else:
            frame.write.mode("append").parquet(path)

    return write


def _try(spark: SparkSession, stateful: bool) -> None:
    begun = time.monotonic()
    try:
        warm_up(spark, stateful=stateful)
    except Exception as error:  # the first batch is a cold one then
        log.info("the warm-up of Spark did not work: %s", error)
    else:
        log.info("Spark is warm, after %.1f s", time.monotonic() - begun)
