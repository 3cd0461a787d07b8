"""Publishes the micro-batches of one vertex: what Spark committed becomes an entry of the subtask's log (R1).

A micro-batch is published in this order:

1. ``foreach_batch`` stages outputs under fresh names and writes the *prepared* record;
2. Spark commits the batch (``commits/<b>``);
3. ``publish_committed`` appends the one entry that makes the batch count. It runs after the query's progress
   event, and at the latest before the next batch stages anything.

A barrier is appended at the last published entry, without waiting for the batch that is running (R19). Before and after
a batch is staged the attempt looks whether the job is still its own (R8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.messages import BarrierAcknowledged, BarrierDeclined
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.graph import Vertex
from airflow_provider_ckpt.partitions.errors import BatchGapError
from airflow_provider_ckpt.partitions.input_gate import TakeSnapshot
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.errors import QueryFailedError
from airflow_provider_ckpt.spark.task.batch_files import files_of_batch, refuse_glob_names, refuse_other_files
from airflow_provider_ckpt.spark.task.context import InputAdvanced, RunContext
from airflow_provider_ckpt.spark.task.inputs import Inputs
from airflow_provider_ckpt.spark.task.outputs import Outputs, Prepared, PreparedStore
from airflow_provider_ckpt.sparkfiles.folder import SparkFolder


class Publisher:
    """Of one attempt of one subtask. ``prepared``: where it notes what it has staged.

    ``lock`` guards the log's order together with the inputs: whoever looks at both holds it.
    """

    def __init__(
        self,
        context: RunContext,
        vertex: Vertex,
        subtask: str,
        *,
        log: SubtaskLog,
        folder: SparkFolder,
        inputs: Inputs,
        outputs: Outputs,
        prepared: PreparedStore,
        dropped: frozenset[str],
    ) -> None:
        self.vertex, self.subtask = vertex, subtask
        self.log, self.folder, self.inputs = log, folder, inputs
        self.dropped = dropped
        """Sources and edges that the query leaves out."""
        self.lock = threading.RLock()
        self.published = threading.Condition(self.lock)
        self.failure: BaseException | None = None
        """What ``foreach_batch`` raised; Spark tells it only wrapped."""
        self.is_stopping = False
        """The query is being stopped by us: what a batch fails with from here on is an interruption."""
        self.after_publish: Callable[[], None] = lambda: None
        """Called, with the lock held, for each batch that was published."""
        self._context, self._outputs, self._prepared = context, outputs, prepared
        self._pending: Prepared | None = None

    def recover(self, before: Iterable[Prepared | None]) -> None:
        """Publish the batch that Spark committed but the attempt before did not (R1); catch up with the logs.

        ``before``: what each earlier attempt prepared last, newest first. It need not be the last attempt that
        prepared the batch: one may have died after it had copied the commit, and before it published.
        """
        with self.lock:
            commit = self.folder.newest_commit()
            last = self.log.state.last_batch
            if last is not None:
                self.inputs.advance(last.offsets)
                self.inputs.published()
            if commit is None or (last is not None and commit <= last.batch_id):
                return
            prepared = next((one for one in before if one is not None and one.batch_id == commit), None)
            if prepared is None:
                raise QueryFailedError(
                    vertex=self.vertex.uid,
                    cause=f"Spark committed batch {commit}, of which no prepared output is known",
                )
            self._pending = prepared
            self.publish_committed()

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier at the last published entry and acknowledge it, or decline it if the storage does not
        take it now: whether the run survives that is the coordinator's to judge."""
        with self.lock:
            try:
                snapshot = self.log.barrier(self._context.epoch, checkpoint)
            except TransientError as error:
                self.post(BarrierDeclined, checkpoint=checkpoint, reason=IO_EXCEPTION, detail=str(error))
                return
            self.inputs.gate.snapshotted(checkpoint)
        self.post(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)
        self.notify_consumers()

    def act_on_inputs(self) -> None:
        """Snapshot where a barrier is due, feed what may be read. The caller holds the lock."""
        for action in self.inputs.pull(time.monotonic()):
            if isinstance(action, TakeSnapshot):
                self.trigger(action.checkpoint)
            else:
                self.inputs.carry_out(action)

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Spark calls it, in its own thread."""
        try:
            self.check_fenced()
            self.publish_committed()
            self._check_planned(batch_id)
            prepared = self._outputs.stage(frame, batch_id)
            self._prepared.write(prepared)
            with self.lock:
                self._pending = prepared
            self.check_fenced()
        except BaseException as error:
            self.failure = error
            if self.is_stopping:
                # Spark knows an interruption by its name in the message, and overflows the stack on a long one
                raise RuntimeError("java.lang.InterruptedException: the query was stopped in a batch") from None
            raise

    def publish_committed(self) -> None:
        """Append the entry of the prepared batch if Spark has committed it."""
        with self.lock:
            prepared = self._pending
            if prepared is None or not self.folder.is_committed(prepared.batch_id):
                return
            self._refuse_gap(prepared.batch_id)
            offsets = self.folder.offsets(prepared.batch_id)
            self.inputs.advance(offsets)
            self.act_on_inputs()  # unaligned, what lies behind a barrier is published after the snapshot
            self.log.publish(self._entry(prepared, offsets))
            self.inputs.published()
            self._pending = None
            self.published.notify_all()
            self.act_on_inputs()  # aligned, the batch may have been all that the snapshot waited for
            self.after_publish()
        self.notify_consumers()

    def _refuse_gap(self, batch_id: int) -> None:
        """Spark numbers the batches of a folder one after the other: one that is missing was in an entry that is
        gone."""
        last = self.log.state.last_batch
        following = 0 if last is None else last.batch_id + 1
        if batch_id > following:
            raise BatchGapError(batch_id=batch_id, log=self.log.path, last="none" if last is None else last.batch_id)

    def post(self, kind: Callable[..., object], **fields: Any) -> None:
        """Tell the coordinator."""
        message = kind(epoch=self._context.epoch, subtask=self.subtask, attempt=self._context.attempt, **fields)
        self._context.post(message)

    def notify_consumers(self) -> None:
        for edge in self._context.graph.outputs(self.vertex.uid):
            self._context.post(InputAdvanced(f"{edge.consumer}/0"))

    def _entry(self, prepared: Prepared, offsets: dict[str, str]) -> Batch:
        return Batch(
            batch_id=prepared.batch_id,
            offsets=offsets,
            inputs=self._positions(),
            files=prepared.files,
            handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
            watermark=self.folder.watermark_after(prepared.batch_id),
            ended=tuple(sorted(self.inputs.ended() | self.dropped)),
        )

    def _positions(self) -> dict[str, int]:
        """Edges that were dropped stay where they ended: what lies before is no longer needed."""
        last = self.log.state.last_batch
        return {**(last.inputs if last is not None else {}), **self.inputs.positions()}

    def _check_planned(self, batch_id: int) -> None:
        """What was planned must be there: Spark leaves out files that are gone, and says nothing."""
        with self.lock:
            planned = self.inputs.planned(self.folder.offsets(batch_id))
        if planned:
            refuse_glob_names(planned)
            refuse_other_files(self.vertex.uid, planned, files_of_batch(self._context.spark, self.vertex.uid))
            self.inputs.refuse_damaged(planned)

    def check_fenced(self) -> None:
        """Raises FencedError or LogFencedError if a later driver owns the job or the log."""
        self._context.check_fenced()
        self.log.check_fenced()
