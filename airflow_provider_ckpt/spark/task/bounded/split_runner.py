"""The runner of one subtask of a source with splits, in BATCH and STREAMING mode.

Each split is one Spark batch job, or several small splits are one job together. The TaskMachine decides the next step,
and the coordinator assigns the splits. The driver's loop calls the commands. A thread of the runner reads the splits
and ends the log.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql.types import StructType

from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded.bounded_runner import BoundedRunner, publication_of
from airflow_provider_ckpt.spark.task.bounded.split_stage import SplitStage
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.task.split_reading import SplitBatchSize, SplitReading

_POLL = 0.02


class SplitRunner(BoundedRunner):
    """One attempt of one subtask of a source with splits. ``splits``: id → split, for all splits of the source."""

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
        self._splits = splits
        self._stage = SplitStage(
            context, vertex.uid, outputs, schema, vertex.parallelism, self._staged, self._has_stopped
        )
        self._size = SplitBatchSize(self._most())
        self._is_stopped = self._is_leaving = self._works = False
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
        """Begin no further split. Wait until the current splits are read, or until the monotonic time ``until``."""
        self._is_leaving = True
        while self._works and time.monotonic() < until:
            time.sleep(_POLL)

    def stop(self) -> None:
        self._is_stopped = True
        self._cancel()

    def close(self) -> None:
        while self._is_stopped and self._works:  # repeat, because a split may start several Spark jobs
            self._cancel()
            time.sleep(_POLL)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _has_stopped(self) -> bool:
        return self._is_stopped

    def _cancel(self) -> None:
        if self._works:
            self._stage.cancel()

    # ---- its own thread

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            if not self._is_stopped:  # otherwise the error comes from our cancellation
                report_crash(self._run, self.subtask, self.attempt, error)

    def _deploy(self, plan: VertexPlan) -> None:
        if self._reading.deploy(plan):
            self._reading.begin()

    def _work(self) -> None:
        while not (self._is_stopped or self._is_leaving) and (names := self._reading.next(self._size.now)):
            self._works = True
            try:
                self._read([self._splits[name] for name in names])
            finally:
                self._works = False
        self._reading.end_if_exhausted()

    def _read(self, splits: Sequence[Split]) -> None:
        begun, size_before, batch = time.monotonic(), self._size.now, self._reading.next_batch
        if len(splits) > 1:
            staged = self._stage.together(splits, batch, self._size.abort_after)
        else:
            staged = 1, self._stage.alone(splits[0], batch)
        if staged is None:
            self._size.failed()
        else:
            count, prepared = staged
            self._size.took(count, time.monotonic() - begun)
            entry = replace(prepared.batch(), splits=tuple(split.id for split in splits[:count]))
            self._reading.complete(entry, together=self._size.now)
        if self._size.now < size_before:
            self._reading.return_surplus(self._size.now)

    def _most(self) -> int:
        splits = self._run.job.operators[self.vertex.uid].splits
        assert splits is not None, self.vertex
        return splits.most_together
