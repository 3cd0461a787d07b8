"""Jobs in which any write below the vertices may fail, with or without effect, while they run.

Such writes are feeds, entries and opens of logs, copies of Spark folders, and notes. Queries restart, and failed
barriers are tolerated.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.random_jobs.definition import Definition
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import RunPlan, Schedule
from tests.spark.faults import Fault
from tests.spark.harness import Line

AT_MOST = 14
"""Most failures of one job."""
CHANCE = 0.06
LANDS = 0.3


@dataclass
class Failures:
    rng: random.Random
    count: int = 0
    is_on: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self, path: str) -> bool | None:
        """Return whether the failing verb takes effect; None: the verb does not fail."""
        if not self.is_on or "/vertices/" not in f"/{path}":
            return None
        with self.lock:
            if self.count >= AT_MOST or self.rng.random() >= CHANCE:
                return None
            self.count += 1
            return self.rng.random() < LANDS


class FailingVerbs(WrappedStorage):
    def __init__(self, inner: Storage, failures: Failures) -> None:
        super().__init__(inner)
        self.failures = failures

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        lands = self.failures.draw(path)
        if lands is not False:
            super()._mutate(verb, path, act)
        if lands is not None:
            raise StorageTransientError(verb=verb, uri=path, reason="drawn")

    def _wrap(self, inner: Storage) -> FailingVerbs:
        return FailingVerbs(inner, self.failures)


class FailingAnywhere(InProcess):
    """A job with failing writes.

    Raises AssertionError unless its output is the same as without failures.
    """

    options = {"restart_attempts": 100, "restart_delay": 0, "tolerable_failed_checkpoints": 1000}

    def __init__(self, spark: SparkSession, definition: Definition, schedule: Schedule, base: Path) -> None:
        super().__init__(spark, definition, schedule, base)
        self.failures = Failures(random.Random(definition.seed * 31 + 11))

    def _storage(self) -> Storage:
        return FailingVerbs(self.world.storage, self.failures)

    def _attempt(self, plan: RunPlan) -> str:
        self.failures.is_on = False
        try:
            return super()._attempt(plan)
        finally:
            self.failures.is_on = False

    def _hear(self, plan: RunPlan, fault: Fault) -> Callable[[Line], None]:
        """Switch failures on only while the job runs.

        Failures before and after end the run, which another test covers.
        """
        inner = super()._hear(plan, fault)

        def hear(line: Line) -> None:
            self.failures.is_on = line["kind"] not in ("finished", "stopped", "failed") and (
                self.failures.is_on or line["kind"] == "running"
            )
            inner(line)

        return hear

    def _check_status(self, plan: RunPlan, status: str, cause: str | None, fault: Fault) -> None:
        if status == "RESTARTING" and self._asked and self.failures.count:
            return  # the query failed while a stop waited for its savepoint
        super()._check_status(plan, status, cause, fault)
