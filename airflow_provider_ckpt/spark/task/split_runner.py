"""Runs one subtask of a source with splits, in either mode: one split after the other, each one Spark batch job.

A split is published by one entry of the subtask's log, which is its completion (R14). What comes next is the machine's
to say, and which split the coordinator's. The driver's loop calls the commands; splits are read, and the log is ended,
in one thread of its own.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.reports import BarrierAcknowledged, BarrierDeclined, SplitCompleted
from airflow_provider_ckpt.errors import CkptError, TransientError
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError
from airflow_provider_ckpt.spark.query.splits import as_planned, split_frame
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import SplitFailedError
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.quiet import add_pool
from airflow_provider_ckpt.task.actions import Action, BuildQuery, EndData, EndPartition, RunQuery, Tell
from airflow_provider_ckpt.task.assigned_splits import AssignedSplits, published_in
from airflow_provider_ckpt.task.machine import Seen, TaskMachine
from airflow_provider_ckpt.task.task import InputAdvanced

_NOTHING = Seen(frozenset(), inputs_ended=True, batch_id=-1)
_POLL = 0.02


class SplitRunner:
    """One attempt of one subtask. ``log``: opened; ``splits``: all of the source, by id; ``schema``: of every one."""

    query_id: str | None = None

    def __init__(
        self,
        context: RunContext,
        vertex: JobVertex,
        subtask: SubtaskId,
        attempt: AttemptId,
        log: SubtaskLog,
        outputs: Outputs,
        splits: Mapping[str, Split],
        schema: StructType,
    ) -> None:
        self.vertex, self.subtask, self.attempt, self.log = vertex, subtask, attempt, log
        self._context, self._outputs = context, outputs
        self._operator = context.job.operators[vertex.uid]
        self._splits, self._schema = splits, schema
        self._assigned = AssignedSplits()
        self._machine = TaskMachine([vertex.uid])
        self._lock = threading.RLock()
        """Entries of the log, and the reports about them, are in one order."""
        self._is_stopped = self._is_leaving = False
        self._reading: str | None = None
        self._group = f"ckpt-{context.job_id}-{subtask}-{attempt}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ckpt-{subtask}")

    # ---- the driver's loop: commands

    def deploy(self, plan: VertexPlan) -> None:
        self._submit(functools.partial(self._deploy, plan))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        with self._lock:
            self._assigned.assign(splits, is_last=is_last)
        self._submit(self._work)

    def trigger(self, checkpoint: int) -> None:
        with self._lock:
            try:
                snapshot = self.log.barrier(self._context.epoch, checkpoint)
            except TransientError as error:
                self._post(BarrierDeclined, checkpoint=checkpoint, reason=IO_EXCEPTION, detail=str(error))
                return
            self._post(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)
        self._notify_consumers()

    def pause(self, reason: PauseReason) -> None:
        raise AssertionError(f"{reason}: a source with splits has no plan that changes")

    def resume(self, plan: VertexPlan) -> None:
        raise AssertionError(f"{plan}: a source with splits does not stand still")

    def drain(self) -> None:
        """Nothing: it ends with its last split."""

    def finish(self) -> None:
        with self._lock:
            self._carry_out(self._machine.finish())
        self.close()

    # ---- the driver's loop: the rest

    def pull_inputs(self) -> None:
        """Nothing: it has none."""

    def check(self) -> None:
        """Nothing: a split that fails is reported by the thread that reads it."""

    def wait_for_batch(self, until: float) -> None:
        """The split that is read may come to its end; no other is begun."""
        self._is_leaving = True
        while self._reading is not None and time.monotonic() < until:
            time.sleep(_POLL)

    def stop(self) -> None:
        self._is_stopped = True
        self._cancel()

    def close(self) -> None:
        while self._is_stopped and self._reading is not None:  # a split is several Spark jobs: each may have begun
            self._cancel()
            time.sleep(_POLL)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def late_files(self) -> set[str]:
        """None: what a split reads is the user's function's to say."""
        return set()

    def _cancel(self) -> None:
        if self._reading is not None:
            self._context.spark.sparkContext.cancelJobGroup(self._group)

    # ---- its own thread

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            if not self._is_stopped:  # else it is what we interrupted
                report_crash(self._context, self.subtask, self.attempt, error)

    def _deploy(self, plan: VertexPlan) -> None:
        with self._lock:
            for split, position in published_in(self.log, self._context.epoch):
                self._post(SplitCompleted, split=split, position=position)  # the attempt before may not have said so
            self._carry_out(self._machine.deploy(plan, self.log.state.end_of_data))

    def _work(self) -> None:
        while not (self._is_stopped or self._is_leaving) and (split := self._next()) is not None:
            self._reading = split
            try:
                self._read(self._splits[split])
            finally:
                self._reading = None
        with self._lock:
            if self._assigned.is_exhausted:
                ended = frozenset([self.vertex.uid])
                self._carry_out(self._machine.advance(Seen(ended, True, self._last_batch())))

    def _next(self) -> str | None:
        with self._lock:
            return self._assigned.next()

    def _read(self, split: Split) -> None:
        self._check_fenced()
        prepared = self._staged(split)
        self._check_fenced()
        with self._lock:
            position = self.log.publish(
                Batch(
                    batch_id=prepared.batch_id,
                    offsets={},
                    files=prepared.files,
                    handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
                    split=split.id,
                )
            )
            self._assigned.done(split.id)
            self._post(SplitCompleted, split=split.id, position=position)
        self._notify_consumers()

    def _staged(self, split: Split) -> Any:
        """Raises SplitFailedError for whatever the user's function, or Spark, fails with."""
        try:
            return self._outputs.stage(self._frame(split), self._last_batch() + 1)
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
        context = self._context
        spark = context.spark
        add_pool(spark, self.vertex.uid)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.vertex.uid)
        spark.sparkContext.setJobGroup(self._group, f"{self.vertex.uid}: {split.id}", interruptOnCancel=True)
        return as_planned(self._operator, split, split_frame(spark, self._operator, split), self._schema)

    def _last_batch(self) -> int:
        last = self.log.state.last_batch
        return -1 if last is None else last.batch_id

    # ---- from facts to actions; the lock is held

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case BuildQuery():
                    reads = [self.vertex.uid]
                    self._carry_out(self._machine.planned(reads, runs_out=False, seen=_NOTHING))
                case RunQuery():
                    self._carry_out(self._machine.started(_NOTHING))
                case EndData(mode):
                    self.log.end_of_data(mode)
                    self._carry_out(self._machine.data_ended())
                    self._notify_consumers()
                case EndPartition():
                    self.log.end_of_partition()
                    self._notify_consumers()
                    self._carry_out(self._machine.partition_ended())
                case Tell(kind, fields):
                    self._post(kind, **fields)
                case _:
                    raise AssertionError(f"{action}: a source with splits is no query")

    def _check_fenced(self) -> None:
        self._context.check_fenced()
        self.log.check_fenced()

    def _notify_consumers(self) -> None:
        for consumer, _ in readers(self._context.graph, self.subtask):
            self._context.post(InputAdvanced(consumer))

    def _post(self, kind: Callable[..., object], **fields: Any) -> None:
        self._context.post(kind(epoch=self._context.epoch, subtask=self.subtask, attempt=self.attempt, **fields))
