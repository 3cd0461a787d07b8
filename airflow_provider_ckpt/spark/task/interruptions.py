"""Suppression of Spark's log during an intended stop, when Spark would log hundreds of lines of stack traces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_POLL = 0.05
_TRAILING = 5.0
"""Maximum seconds to wait for the end of interrupted tasks, because they log, too."""
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
"""Loggers that report the interruption of a query in a batch. Other loggers of Spark stay on."""


@contextmanager
def silenced(spark: SparkSession) -> Iterator[None]:
    """Switch ``LOGGERS`` off until the block and interrupted tasks have ended. Use this only at the end of a run."""
    levels = _Levels(spark)
    levels.switch_off()
    try:
        yield
        _wait_for_tasks(spark)
    finally:
        levels.restore()


def stop_quietly(spark: SparkSession) -> None:
    """Stop Spark with its loggers off. Otherwise Spark's threads would log that Spark is gone."""
    levels = _Levels(spark)
    levels.switch_off()
    try:
        _stop_state_stores(spark)
        spark.stop()
    finally:
        levels.restore()


def _stop_state_stores(spark: SparkSession) -> None:
    """Stop the maintenance thread of state stores. Otherwise it would fail within a minute, because Spark is gone."""
    jvm: Any = spark._jvm
    try:
        stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
        getattr(stores, "MODULE$").stop()
    except (Py4JError, OSError, TypeError):  # another version of Spark may have it elsewhere
        pass


class _Levels:
    """A switch for the :data:`LOGGERS` of log4j. Its methods do nothing if Spark logs through another library."""

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
    except (Py4JError, OSError):  # the JVM has ended, which another part of the driver reports
        return 0
