"""Jobs whose queries fail at times and restart alone, in addition to the other faults of their runs."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.random_jobs.definition import Definition
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import RunPlan, Schedule
from tests.spark.faults import Fault

AT_MOST = 8
"""Most failures of one job."""
CHANCE = 0.15
_PREPARED = re.compile(r"/vertices/([^/]+/\d+)/prepared/")
_LOG = re.compile(r"/vertices/([^/]+/\d+)/log/")


@dataclass
class Failures:
    """Random failures of queries.

    A query that failed at its entry keeps failing there until its next attempt has opened the log.
    """

    rng: random.Random
    count: int = 0
    failing: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self, subtask: str) -> bool:
        with self.lock:
            if self.count >= AT_MOST or subtask in self.failing or self.rng.random() >= CHANCE:
                return False
            self.count += 1
            return True


class FailingQueries(WrappedStorage):
    def __init__(self, inner: Storage, failures: Failures) -> None:
        super().__init__(inner)
        self.failures = failures

    def replace(self, path: str, data: bytes) -> None:
        """Fail the write of a note: the batch is staged, and Spark does not commit it."""
        match = _PREPARED.search(f"/{path}")
        if match is not None and self.failures.draw(match[1]):
            raise StorageTransientError(verb="replace", uri=path, reason="drawn")
        super().replace(path, data)

    def create(self, path: str, data: bytes) -> None:
        """Fail the write of an entry: Spark has committed the batch, and the entry may or may not be written."""
        match = _LOG.search(f"/{path}")
        if match is not None:
            self._entry(match[1], path, data)
        super().create(path, data)

    def _entry(self, subtask: str, path: str, data: bytes) -> None:
        failures = self.failures
        if b'"Open"' in data:
            failures.failing.discard(subtask)
        elif b'"Batch"' in data:
            drawn = failures.draw(subtask)
            if drawn and failures.rng.random() < 0.5:
                super().create(path, data)
            if drawn:
                failures.failing.add(subtask)
            if subtask in failures.failing:
                raise StorageTransientError(verb="create", uri=path, reason="drawn")

    def _wrap(self, inner: Storage) -> FailingQueries:
        return FailingQueries(inner, self.failures)


class Restarting(InProcess):
    """A job with failing queries.

    Raises AssertionError unless its output is the same as without failures.
    """

    options = {"restart_attempts": 100, "restart_delay": 0}

    def __init__(self, spark: SparkSession, definition: Definition, schedule: Schedule, base: Path) -> None:
        super().__init__(spark, definition, schedule, base)
        self.failures = Failures(random.Random(definition.seed * 31 + 7))

    def _storage(self) -> Storage:
        return FailingQueries(self.world.storage, self.failures)

    def _gone(self, error: TransientError, plan: RunPlan, fault: Fault) -> str:
        """Retry a run that failed at its start, while it published a batch that the previous run had committed."""
        if not fault.happened and "drawn" in str(error):
            self.story.note(f"failed while it started: {error}")
            return self._attempt(plan)
        return super()._gone(error, plan, fault)

    def _check_status(self, plan: RunPlan, status: str, cause: str | None, fault: Fault) -> None:
        if status == "RESTARTING" and "stop" in self._asked and self.failures.count:
            return  # the query failed while the stop waited for its savepoint
        super()._check_status(plan, status, cause, fault)
