"""How many executors this driver asks its cluster for, while it runs."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.task.jvm import is_gone

log = logging.getLogger(__name__)

COMING = 120.0
"""Seconds. One that the cluster had begun before fewer were asked for registers so much later at the most."""
_LOOK = 1.0


class Executors:
    """Of one driver. Its queries share them, so the largest number that one of them was given holds. Spark asks the
    cluster for as many, and gets them when there is room; those that are too many end, and their tasks run again
    elsewhere. Safe for use from several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._lock = spark, threading.Lock()
        self._wanted: dict[str, int] = {}
        self._asked: int | None = None

    def problem(self) -> str | None:
        """Why their number cannot be changed here; None if it can."""
        context: Any = self._spark.sparkContext
        if context.master.split("[")[0] == "local":
            return f"its Spark has no executors (master {context.master}): it has to run on a cluster for that"
        if context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true":
            return (
                "Spark gives and takes its executors (spark.dynamicAllocation.enabled): stop the job, and begin it "
                "with other limits for that"
            )
        return None

    def want(self, uid: str, number: int | None) -> None:
        """For query ``uid``, which begins; None: as many as there are."""
        with self._lock:
            if number is None:
                self._wanted.pop(uid, None)
            else:
                self._wanted[uid] = number
            most = max(self._wanted.values(), default=None)
            if most is not None and most != self._asked:
                self._asked = most
                self._ask(most)

    def _ask(self, number: int) -> None:
        problem = self.problem()
        if problem is not None:  # it could when it was decided: this run has other Spark settings
            log.warning("%s executors were asked for, and there are as many as there are: %s", number, problem)
            return
        log.info("asking the cluster for %s executors", number)
        self._end_surplus(number)
        context: Any = self._spark.sparkContext
        nowhere = getattr(context._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        context._jsc.sc().requestTotalExecutors(number, 0, nowhere)
        threading.Thread(target=self._end_latecomers, args=(number,), name="ckpt-executors", daemon=True).start()

    def _end_surplus(self, number: int) -> None:
        context: Any = self._spark.sparkContext
        spark_context = context._jsc.sc()
        running = sorted(filter(None, spark_context.getExecutorIds().mkString(",").split(",")), key=_age)
        if running[number:]:
            as_seq = context._jvm.org.apache.spark.api.python.PythonUtils.toSeq
            spark_context.killExecutors(as_seq(running[number:]))

    def _end_latecomers(self, number: int) -> None:
        """Spark ends none that is too many by itself, and knows none that has not registered yet."""
        until = time.monotonic() + COMING
        while time.monotonic() < until:
            time.sleep(_LOOK)
            with self._lock:
                if self._asked != number or is_gone() or self._spark.sparkContext._jsc is None:
                    return
                self._end_surplus(number)


def _age(executor: str) -> tuple[int, str]:
    """The oldest first: they have the state of the queries in their memory, and what Spark has cached."""
    return (int(executor), "") if executor.isdigit() else (0, executor)
