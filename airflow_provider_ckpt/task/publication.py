"""The only writer of a task's log. It appends batches, barriers and ends, and reports them in the same order.

A barrier is appended at the last published entry. It does not wait for the data that is being read (R19). If the task
has a gate, data after a barrier of an input is published after the barrier is in the task's own log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.protocol.reports import BarrierAcknowledged, BarrierDeclined, Report
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.counts import added
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.model.progress import TimesByInput, combined
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.errors import BatchConflictError
from airflow_provider_ckpt.subtasklog.input_gate import TakeSnapshot
from airflow_provider_ckpt.subtasklog.records import Batch, EndMode
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.vertex_inputs import Inputs


class Publication:
    """The writer of the log of one attempt of one subtask. All threads append batches, barriers and ends through it.

    ``lock`` guards the order of log entries and reports, and the state that must agree with them: the inputs and the
    task's :class:`~.machine.TaskMachine`. No thread holds the lock while Spark works, because a barrier must pass while
    a batch takes hours. Methods that append raise the errors of :class:`SubtaskLog`.

    Args:
        post: posts a report. It must not block.
        notify: notifies the consumers of new entries. It must not block.
        inputs: the inputs of a streaming query and their gate; None for a task that reads all of its input at once.
        plan: the plan that the query runs. It names the sources that the query leaves out.
    """

    def __init__(
        self,
        log: SubtaskLog,
        task_id: TaskId,
        inputs: Inputs | None = None,
        *,
        post: Callable[[Report], None],
        notify: Callable[[], None],
        plan: VertexPlan | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log, self.task_id, self.post = log, task_id, post
        self.inputs, self.plan = inputs, plan or VertexPlan(0, ())
        self.lock = threading.RLock()
        self._notify, self._clock = notify, clock
        self._failed: BaseException | None = None
        """The first error of :meth:`act_on_inputs`, which every later call raises again."""

    def restore(self) -> None:
        """Restore the read positions and the barriers from the log. Call this before all other methods."""
        if self.inputs is None:
            return
        barriers = [checkpoint for epoch, checkpoint in self.log.state.barriers if epoch == self.task_id.epoch]
        self.inputs.gate.snapshotted(max(barriers, default=0))
        last = self.log.state.last_batch
        if last is not None:
            self.inputs.advance(last.offsets)
            self.inputs.published()

    def publish(self, batch: Batch, *, follows: int | None = None) -> int:
        """Publish ``batch``: append it to the log, and return its position.

        Before and after, take due snapshots and feed inputs.

        Args:
            batch: the batch. Its late rows, event times and malformed rows exclude those of earlier batches. This
                method adds the positions and ends of gated inputs.
            follows: number of the previous batch, if the state was repartitioned after that batch (R21). None means the
                previous number.

        Raises BatchConflictError if the batch before this one is not published.
        """
        with self.lock:
            self._refuse_gap(batch.batch_id, batch.batch_id - 1 if follows is None else follows)
            if self.inputs is not None:
                self.inputs.advance(batch.offsets)
                self.act_on_inputs()  # if unaligned, an arrived barrier goes before this batch
                ended = tuple(sorted(self.inputs.ended() | self.plan.without))
                batch = replace(batch, inputs=self._positions(self.inputs), ended=ended)
            position = self.log.append_batch(self._with_earlier_counts(batch))
            self._notify()
            if self.inputs is not None:
                self.inputs.published()
                self.act_on_inputs()  # if aligned, the snapshot may have waited for this batch
            return position

    def trigger(self, checkpoint: int) -> bool:
        """Append a barrier at the last published entry and acknowledge it. Return True if the barrier is in the log.

        If the storage does not accept the barrier now, the barrier is declined. The coordinator then decides whether
        the run survives. If an earlier append has broken the log, nothing is reported, because the failure of the task
        aborts the checkpoint.
        """
        with self.lock:
            try:
                snapshot = self.log.barrier(self.task_id.epoch, checkpoint)
            except TransientError as error:
                if self.log.is_broken:
                    return False
                self.post(BarrierDeclined(*self.task_id, checkpoint, IO_EXCEPTION, detail=str(error)))
                return False
            self.post(BarrierAcknowledged(*self.task_id, checkpoint, snapshot))
            self._notify()
            if self.inputs is not None:
                self.inputs.gate.snapshotted(checkpoint)
            return True

    def act_on_inputs(self) -> None:
        """Take the due snapshots and feed the data that the query may read. The caller holds the lock.

        After an error, every later call raises the same error: a feed that continued after a lost action would have a
        gap. The next attempt resumes from the end of the feed.
        """
        if self._failed is not None:
            raise self._failed
        try:
            if self.inputs is not None:
                self._act_on(self.inputs)
        except BaseException as error:
            self._failed = error
            raise

    def _act_on(self, inputs: Inputs) -> None:
        for action in inputs.pull(self._clock()):
            if isinstance(action, TakeSnapshot):
                self.trigger(action.checkpoint)
            else:
                inputs.carry_out(action)

    def end_of_data(self, mode: EndMode) -> None:
        with self.lock:
            self.log.end_of_data(mode)
            self._notify()

    def end_of_partition(self) -> None:
        with self.lock:
            self.log.end_of_partition()
            self._notify()

    def last_batch(self) -> int:
        """Return the number of the last published batch, -1 if there is none."""
        last = self.log.state.last_batch
        return -1 if last is None else last.batch_id

    @property
    def times(self) -> TimesByInput:
        """Input → event times of the input's rows in all published batches; empty before the first batch."""
        last = self.log.state.last_batch
        return {} if last is None else last.times

    def _with_earlier_counts(self, batch: Batch) -> Batch:
        last = self.log.state.last_batch
        if last is None:
            return batch
        return replace(
            batch,
            late_rows=last.late_rows + batch.late_rows,
            times=combined(last.times, batch.times),
            malformed=added(last.malformed, batch.malformed),
        )

    def _refuse_gap(self, batch_id: int, follows: int) -> None:
        """Refuse batch ``batch_id`` if batch ``follows``, which precedes it, is not published.

        Spark numbers the batches of a folder without gaps.
        """
        last = self.log.state.last_batch
        if follows > self.last_batch():
            raise BatchConflictError(
                batch_id=batch_id, log=self.log.path, last="none" if last is None else last.batch_id
            )

    def _positions(self, inputs: Inputs) -> dict[str, int]:
        """Return channel → position up to which its input is read. A dropped channel keeps its last position."""
        last = self.log.state.last_batch
        return {**({} if last is None else last.inputs), **inputs.positions()}
