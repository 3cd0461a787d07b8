"""Runs one subtask of a source with splits, in either mode: one split after the other, each one Spark batch job.

What comes next is the machine's to say, and which split the coordinator's. The driver's loop calls the commands; splits
are read, and the log is ended, in one thread of its own.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.prepared_store import Prepared
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError
from airflow_provider_ckpt.spark.query.splits import as_planned, split_frame
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded_runner import BoundedRunner, batch_of, publication_of
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import SplitFailedError
from airflow_provider_ckpt.spark.task.jvm import is_gone
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool
from airflow_provider_ckpt.task.split_reading import SplitReading

_POLL = 0.02


class SplitRunner(BoundedRunner):
    """One attempt of one subtask. ``splits``: all of the source, by id; ``schema``: of every one."""

    _reading: SplitReading

    def __init__(
        self,
        context: AttemptContext,
        vertex: JobVertex,
        outputs: Outputs,
        splits: Mapping[str, Split],
        schema: StructType,
    ) -> None:
        super().__init__(context, vertex, outputs, SplitReading(vertex.uid, publication_of(context)))
        self._operator = self._run.job.operators[vertex.uid]
        self._splits, self._schema = splits, schema
        self._is_stopped = self._is_leaving = False
        self._current: str | None = None
        """The split that is being read."""
        self._group = f"ckpt-{self._run.job_id}-{self.subtask}-{self.attempt}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ckpt-{self.subtask}")

    # ---- the driver's loop

    def deploy(self, plan: VertexPlan) -> None:
        self._submit(functools.partial(self._deploy, plan))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self._reading.assign(splits, is_last=is_last)
        self._submit(self._work)

    def finish(self) -> None:
        super().finish()
        self.close()

    def wait_for_batch(self, until: float) -> None:
        """The split that is read may come to its end; no other is begun."""
        self._is_leaving = True
        while self._current is not None and time.monotonic() < until:
            time.sleep(_POLL)

    def stop(self) -> None:
        self._is_stopped = True
        self._cancel()

    def close(self) -> None:
        while self._is_stopped and self._current is not None:  # a split is several Spark jobs: each may have begun
            self._cancel()
            time.sleep(_POLL)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _cancel(self) -> None:
        if self._current is not None and not is_gone():
            self._run.spark.sparkContext.cancelJobGroup(self._group)

    # ---- its own thread

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            if not self._is_stopped:  # else it is what we interrupted
                report_crash(self._run, self.subtask, self.attempt, error)

    def _deploy(self, plan: VertexPlan) -> None:
        if self._reading.deploy(plan):
            self._reading.begin()

    def _work(self) -> None:
        while not (self._is_stopped or self._is_leaving) and (split := self._reading.next()) is not None:
            self._current = split
            try:
                self._read(self._splits[split])
            finally:
                self._current = None
        self._reading.end_if_exhausted()

    def _read(self, split: Split) -> None:
        prepared = self._staged(lambda: self._stage(split))
        self._reading.complete(split.id, batch_of(prepared, split=split.id))

    def _stage(self, split: Split) -> Prepared:
        """Raises SplitFailedError for whatever the user's function, or Spark, fails with."""
        try:
            return self._outputs.stage(self._frame(split), self._reading.next_batch)
        except FunctionFailedError as error:  # in the plan it was refused; here it may be a service that is down
            raised: BaseException = error.__cause__ or error
        except CkptError:
            raise
        except Exception as error:
            raised = error
        cause = find_cause(raised).message
        if type(raised).__name__ not in cause and not cause.startswith("["):
            cause = f"{type(raised).__name__}: {cause}"
        raise SplitFailedError(uid=self.vertex.uid, split=split.id, cause=cause) from raised

    def _frame(self, split: Split) -> DataFrame:
        spark = self._run.spark
        add_pool(spark, self.vertex.uid)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.vertex.uid)
        spark.sparkContext.setJobGroup(self._group, f"{self.vertex.uid}: {split.id}", interruptOnCancel=True)
        return as_planned(self._operator, split, split_frame(spark, self._operator, split), self._schema)
