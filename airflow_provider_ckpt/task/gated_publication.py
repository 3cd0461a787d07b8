"""The publication of a streaming query, together with the gate of its inputs.

Data after a barrier of an input is published after the barrier is in the task's own log (R19).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from airflow_provider_ckpt.coordinator.protocol.reports import Report
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.model.progress import TimesByInput, combined
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.errors import BatchConflictError
from airflow_provider_ckpt.subtasklog.input_gate import GateAction, TakeSnapshot
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.inputs import Inputs
from airflow_provider_ckpt.task.publication import Publication


class GatedPublication(Publication):
    """The publication of a streaming query.

    ``inputs`` are the query's inputs, guarded by the same lock. ``plan`` is the plan that the query runs, which names
    the sources that it leaves out.
    """

    def __init__(
        self,
        log: SubtaskLog,
        task_id: TaskId,
        inputs: Inputs,
        *,
        plan: VertexPlan,
        tell: Callable[[Report], None],
        notify: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(log, task_id, tell=tell, notify=notify)
        self.inputs, self.plan = inputs, plan
        self._clock = clock
        self._failed: BaseException | None = None
        """The error that ended the handling of the inputs."""

    def trigger(self, checkpoint: int) -> bool:
        with self.lock:
            is_there = super().trigger(checkpoint)
            if is_there:
                self.inputs.gate.snapshotted(checkpoint)
            return is_there

    def act_on_inputs(self) -> None:
        """Take the snapshots that are due and feed the data that may be read. The caller holds the lock.

        An error is raised again at every later call. The gate returns each action only once, so a feed that continued
        after a lost action would have a gap. The next attempt resumes from the end of the feed.
        """
        if self._failed is not None:
            raise self._failed
        try:
            for action in self.inputs.pull(self._clock()):
                self._act(action)
        except BaseException as error:
            self._failed = error
            raise

    def _act(self, action: GateAction) -> None:
        if isinstance(action, TakeSnapshot):
            self.trigger(action.checkpoint)
        else:
            self.inputs.carry_out(action)

    def resumes(self, plan: VertexPlan) -> None:
        """Note that the query runs ``plan`` from the next batch on. The caller holds the lock, and no query runs."""
        self.plan = plan

    def resume(self) -> None:
        """Restore from the log which data was read and which barriers were taken. Call it before anything else."""
        barriers = [checkpoint for epoch, checkpoint in self.log.state.barriers if epoch == self.task_id.epoch]
        self.inputs.gate.snapshotted(max(barriers, default=0))
        last = self.log.state.last_batch
        if last is not None:
            self.inputs.advance(last.offsets)
            self.inputs.published()

    def publish_batch(
        self,
        batch_id: int,
        offsets: Mapping[str, str],
        *,
        files: tuple[PartitionFile, ...] = (),
        handles: Mapping[str, Mapping[str, Any]],
        watermark: int | None = None,
        rows: int = 0,
        late_rows: int = 0,
        times: TimesByInput = MappingProxyType({}),
        malformed: Mapping[str, int] | None = None,
        follows: int | None = None,
    ) -> None:
        """Publish a micro-batch, and act on the inputs before and after it. The caller holds the lock.

        Args:
            batch_id: number of the batch.
            offsets: the end offsets of its sources.
            files: files of the result partition.
            handles: sink -> handle of the staged output.
            watermark: the watermark of the query.
            rows: number of rows.
            late_rows: rows that the query dropped as late.
            times: event times of its rows, by input.
            malformed: source -> rows that do not fit its schema.
            follows: number of the previous batch, if that is not ``batch_id - 1`` because the state was repartitioned
                in between (R21).

        Raises BatchConflictError if an entry between this batch and the last published one is missing.
        """
        self._refuse_gap(batch_id, batch_id - 1 if follows is None else follows)
        self.inputs.advance(offsets)
        self.act_on_inputs()  # if unaligned, an arrived barrier goes before this batch
        self.publish(
            Batch(
                batch_id=batch_id,
                offsets=offsets,
                inputs=self._positions(),
                files=files,
                handles={uid: dict(handle) for uid, handle in handles.items()},
                watermark=watermark,
                ended=tuple(sorted(self.inputs.ended() | self.plan.without)),
                rows=rows,
                late_rows=self._late_rows() + late_rows,
                times=combined(self.times, times),
                malformed=malformed or {},
            )
        )
        self.inputs.published()
        self.act_on_inputs()  # if aligned, the snapshot may have waited for this batch

    def _late_rows(self) -> int:
        last = self.log.state.last_batch
        return 0 if last is None else last.late_rows

    @property
    def times(self) -> TimesByInput:
        """Return the event times of the published rows, by input."""
        last = self.log.state.last_batch
        return {} if last is None else last.times

    def _refuse_gap(self, batch_id: int, follows: int) -> None:
        """Refuse a batch if an earlier one has no entry, because Spark numbers the batches of a folder without gaps."""
        last = self.log.state.last_batch
        if follows > (-1 if last is None else last.batch_id):
            raise BatchConflictError(
                batch_id=batch_id, log=self.log.path, last="none" if last is None else last.batch_id
            )

    def _positions(self) -> dict[str, int]:
        """Return the positions of all edges.

        Dropped edges keep their last position, because nothing before it is needed.
        """
        last = self.log.state.last_batch
        return {**(last.inputs if last is not None else {}), **self.inputs.positions()}
