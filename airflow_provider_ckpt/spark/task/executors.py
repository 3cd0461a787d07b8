"""The number of executors that a driver requests from its cluster while it runs."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.jvm_state import is_gone

log = logging.getLogger(__name__)

COMING = 120.0
"""Seconds after a request for fewer executors during which executors that were already starting may register."""
_PATIENCE = 5.0
"""Maximum seconds that a starting query waits for the request. A lost Spark master answers after two minutes."""
_LOOK = 1.0
_calls = threading.Lock()
"""The lock for calls to the cluster. A query that starts does not wait for it."""
_last: list[Executors] = []
"""The object with the latest request, if any. Other objects stop repeating their requests.

A standby worker runs several subtasks in sequence with the same Spark, each with an object of its own.
"""


class Executors:
    """The number of executors of one driver. It is thread-safe.

    All queries share the executors, so Spark requests the largest number that a query wants. The cluster starts
    executors when it has resources. Surplus executors are ended, and their tasks run again elsewhere.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._lock = spark, threading.Lock()
        self._wanted: dict[str, int] = {}
        self._requested: int | None = None

    def problem(self) -> str | None:
        """Return why this driver cannot change the number of its executors; None if it can."""
        context: Any = self._spark.sparkContext
        if context.master.split("[")[0] == "local":
            return f"its Spark has no executors (master {context.master}); run the job on a cluster to change them"
        if context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true":
            return (
                "Spark adds and removes its executors itself (spark.dynamicAllocation.enabled): to change the limits, "
                "stop the job and start it with other settings"
            )
        return None

    def request_number(self, uid: str, number: int | None) -> None:
        """Set the number of executors that the query ``uid`` wants, before it starts; None if it wants no number.

        Errors of the cluster are not raised, because the query can run with the current executors.
        """
        with self._lock:
            if number is None:
                self._wanted.pop(uid, None)
            else:
                self._wanted[uid] = number
            most = max(self._wanted.values(), default=None)
            if most is None or most == self._requested:
                return
            self._requested = most
            _last[:] = [self]
        self._start_request(most)

    def _start_request(self, number: int) -> None:
        problem = self.problem()
        if problem is not None:  # the change was valid when it was decided, but this run has other Spark settings
            log.warning("the number of executors stays, although %s were requested: %s", number, problem)
            return
        log.info("asking the cluster for %s executors", number)
        tried = threading.Event()
        threading.Thread(target=self._keep_requesting, args=(number, tried), name="ckpt-executors", daemon=True).start()
        tried.wait(_PATIENCE)

    def _keep_requesting(self, number: int, tried: threading.Event) -> None:
        """Repeat the request until it succeeds, and end surplus executors that register late.

        Spark neither ends surplus executors by itself nor counts executors that have not registered. ``tried`` is set
        after the first try.
        """
        until, is_asked = time.monotonic() + COMING, False
        while time.monotonic() < until:
            try:
                with _calls:
                    if not self._holds(number):
                        break
                    # Spark lowers the wanted number when it is asked to end an executor, so request the number again
                    if self._end_surplus(number) or not is_asked:
                        self._request(number)
                    is_asked = True
            except Exception as error:
                if not self._holds(number):
                    break
                log.warning("the request for %s executors failed, and will be repeated: %s", number, error)
            tried.set()
            time.sleep(_LOOK)
        tried.set()
        with self._lock:
            if not is_asked and self._requested == number:
                self._requested = None  # then the next query that starts repeats the request

    def _holds(self, number: int) -> bool:
        is_last = self in _last and self._requested == number
        return is_last and self._spark.sparkContext._jsc is not None and not is_gone()

    def _request(self, number: int) -> None:
        context: Any = self._spark.sparkContext
        nowhere = getattr(context._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        context._jsc.sc().requestTotalExecutors(number, 0, nowhere)

    def _end_surplus(self, number: int) -> bool:
        context: Any = self._spark.sparkContext
        spark_context = context._jsc.sc()
        running = sorted(filter(None, spark_context.getExecutorIds().mkString(",").split(",")), key=_age)
        if not running[number:]:
            return False
        as_seq = context._jvm.org.apache.spark.api.python.PythonUtils.toSeq
        spark_context.killExecutors(as_seq(running[number:]))
        return True


def _age(executor: str) -> tuple[int, str]:
    """Return a key that sorts executors by age. The oldest are not ended, because they have state and cached data."""
    return (int(executor), "") if executor.isdigit() else (0, executor)
