"""What Spark logs about queries that we interrupt: hundreds of lines of stack traces about nothing that went wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_POLL = 0.05
_TRAILING = 5.0
"""Seconds for the interrupted tasks to end: they log, too."""
LOGGERS = (
    "org.apache.hadoop.util.Shell",
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    "org.apache.spark.broadcast.TorrentBroadcast",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.api.python",
    "org.apache.spark.sql.execution.datasources",
    "org.apache.spark.sql.execution.python",
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.util.Utils",
)
"""Whoever says something when a query is interrupted in a batch. The rest of Spark goes on logging."""


@contextmanager
def silenced(spark: SparkSession) -> Iterator[None]:
    """While it lasts, and until the tasks of what was interrupted have ended, ``LOGGERS`` say nothing. For the end of
    a run only: what a query failed with by itself is logged by then."""
    levels = _Levels(spark)
    levels.switch_off()
    try:
        yield
        _wait_for_tasks(spark)
    finally:
        levels.restore()


def stop_quietly(spark: SparkSession) -> None:
    """Stop Spark. Its own threads work on for a moment, and would log that Spark is gone."""
    levels = _Levels(spark)
    levels.switch_off()
    try:
        _stop_state_stores(spark)
        spark.stop()
    finally:
        levels.restore()


def _stop_state_stores(spark: SparkSession) -> None:
    """Stop the thread that tidies up state stores: its next turn, up to a minute later, fails without Spark."""
    jvm: Any = spark._jvm
    try:
        stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
        getattr(stores, "MODULE$").stop()
    except (Py4JError, OSError, TypeError):  # the next Spark may have it elsewhere
        pass


class _Levels:
    """Of the loggers of log4j; does nothing if Spark logs through something else."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._before: dict[str, Any] = {}

    def switch_off(self) -> None:
        try:
            configured = self._context().getConfiguration().getLoggers()
            for name in LOGGERS:
                self._before[name] = configured[name].getLevel() if configured.containsKey(name) else None
                self._set(name, self._jvm.org.apache.logging.log4j.Level.OFF)
        except (Py4JError, OSError, TypeError):  # another backend of slf4j
            pass

    def restore(self) -> None:
        try:
            for name, level in self._before.items():
                if level is not None:
                    self._set(name, level)
                else:
                    self._context().getConfiguration().removeLogger(name)
            if self._before:
                self._context().updateLoggers()
        except (Py4JError, OSError, TypeError):  # the JVM has gone meanwhile
            pass

    def _context(self) -> Any:
        return self._jvm.org.apache.logging.log4j.LogManager.getContext(False)

    def _set(self, name: str, level: Any) -> None:
        self._jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(name, level)


def _wait_for_tasks(spark: SparkSession) -> None:
    deadline = time.monotonic() + _TRAILING
    while time.monotonic() < deadline and _running_tasks(spark):
        time.sleep(_POLL)


def _running_tasks(spark: SparkSession) -> int:
    try:
        executors: Any = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return sum(executor.numRunningTasks() for executor in executors)
    except (Py4JError, OSError):  # the JVM has gone: what ended the run is told by whoever met it first
        return 0
