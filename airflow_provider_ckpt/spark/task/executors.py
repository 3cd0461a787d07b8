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
_PATIENCE = 5.0
"""Seconds that a query waits for the call before it begins without: a master that is gone answers after two minutes."""
_LOOK = 1.0
_calls = threading.Lock()
"""Of one process, as there is one Spark in it. Held while the cluster is called, and by no query that begins."""
_last: list[Executors] = []
"""Who has asked last: a worker that stands by runs one subtask after the other with the same Spark."""


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
        """For query ``uid``, which begins; None: as many as there are. Raises nothing of the cluster's: a query runs
        with the executors that there are."""
        with self._lock:
            if number is None:
                self._wanted.pop(uid, None)
            else:
                self._wanted[uid] = number
            most = max(self._wanted.values(), default=None)
            if most is None or most == self._asked:
                return
            self._asked = most
            _last[:] = [self]
        self._ask(most)

    def _ask(self, number: int) -> None:
        problem = self.problem()
        if problem is not None:  # it could when it was decided: this run has other Spark settings
            log.warning("%s executors were asked for, and there are as many as there are: %s", number, problem)
            return
        log.info("asking the cluster for %s executors", number)
        tried = threading.Event()
        threading.Thread(target=self._keep, args=(number, tried), name="ckpt-executors", daemon=True).start()
        tried.wait(_PATIENCE)

    def _keep(self, number: int, tried: threading.Event) -> None:
        """Ask until it was heard, and end who comes late: Spark ends none that is too many by itself, and knows none
        that has not registered yet. ``tried``: is told of the first time."""
        until, is_asked = time.monotonic() + COMING, False
        while time.monotonic() < until:
            try:
                with _calls:
                    if not self._holds(number):
                        break
                    # Spark takes whom it is told to end for one that is wanted less
                    if self._end_surplus(number) or not is_asked:
                        self._request(number)
                    is_asked = True
            except Exception as error:
                if not self._holds(number):
                    break
                log.warning("the cluster was not told that %s executors are wanted, for now: %s", number, error)
            tried.set()
            time.sleep(_LOOK)
        tried.set()
        with self._lock:
            if not is_asked and self._asked == number:
                self._asked = None  # the next query that begins asks again

    def _holds(self, number: int) -> bool:
        is_last = self in _last and self._asked == number
        return is_last and self._spark.sparkContext._jsc is not None and not is_gone()

    def _request(self, number: int) -> None:
        context: Any = self._spark.sparkContext
        nowhere = getattr(context._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        context._jsc.sc().requestTotalExecutors(number, 0, nowhere)

    def _end_surplus(self, number: int) -> bool:
        """Whether there was one."""
        context: Any = self._spark.sparkContext
        spark_context = context._jsc.sc()
        running = sorted(filter(None, spark_context.getExecutorIds().mkString(",").split(",")), key=_age)
        if not running[number:]:
            return False
        as_seq = context._jvm.org.apache.spark.api.python.PythonUtils.toSeq
        spark_context.killExecutors(as_seq(running[number:]))
        return True


def _age(executor: str) -> tuple[int, str]:
    """The oldest first: they have the state of the queries in their memory, and what Spark has cached."""
    return (int(executor), "") if executor.isdigit() else (0, executor)
