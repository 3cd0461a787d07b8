"""The publication of a streaming query: beside the gate of its inputs.

What lies behind a barrier of an input is published after the barrier is in the task's own log (R19).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from airflow_provider_ckpt.coordinator.reports import Report
from airflow_provider_ckpt.model.source_times import TimesByInput, combined
from airflow_provider_ckpt.model.task_id import TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.errors import BatchGapError
from airflow_provider_ckpt.partitions.input_gate import GateAction, TakeSnapshot
from airflow_provider_ckpt.partitions.records import Batch, PartitionFile
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.inputs import Inputs
from airflow_provider_ckpt.task.publication import Publication


class GatedPublication(Publication):
    """``inputs``: what the query reads, under the same lock; ``plan``: what it runs, and so what it leaves out."""

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
        """What acting on the inputs ended with."""

    def trigger(self, checkpoint: int) -> bool:
        with self.lock:
            is_there = super().trigger(checkpoint)
            if is_there:
                self.inputs.gate.snapshotted(checkpoint)
            return is_there

    def act_on_inputs(self) -> None:
        """Snapshot where a barrier is due, feed what may be read. The caller holds the lock.

        Raises what that fails with, and the same again ever after: what the gate has handed out is not handed out once
        more, and a feed that went on behind it would have a hole. The next attempt goes on from the end of the feed.
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

    def goes_on(self, plan: VertexPlan) -> None:
        """From the next batch on the query runs ``plan``. The caller holds the lock, and no query runs."""
        self.plan = plan

    def resume(self) -> None:
        """Catch up with what the log says that was read, and of which barriers: before anything else."""
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
        rows: int | None = None,
        late_rows: int = 0,
        times: TimesByInput = MappingProxyType({}),
        malformed: Mapping[str, int] | None = None,
        follows: int | None = None,
    ) -> None:
        """Publish a micro-batch as far as ``offsets``, and act on the inputs before and after it. ``late_rows``: how
        many rows of it the query has dropped as late. ``times``: what its rows have shown of event time. ``malformed``:
        by source, the rows that do not fit its schema. ``follows``: the number of the batch that it comes behind, where
        that is not the number before: the state was cut anew in between (R21). The caller holds the lock. Raises
        BatchGapError."""
        self._refuse_gap(batch_id, batch_id - 1 if follows is None else follows)
        self.inputs.advance(offsets)
        self.act_on_inputs()  # unaligned, a barrier that has arrived is put now, and not behind this batch
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
        self.act_on_inputs()  # aligned, the batch may have been all that the snapshot waited for

    def _late_rows(self) -> int:
        last = self.log.state.last_batch
        return 0 if last is None else last.late_rows

    @property
    def times(self) -> TimesByInput:
        """Input -> what its rows have shown of event time, as far as they are published."""
        last = self.log.state.last_batch
        return {} if last is None else last.times

    def _refuse_gap(self, batch_id: int, follows: int) -> None:
        """Spark numbers the batches of a folder one after the other: one that is missing was in an entry that is
        gone."""
        last = self.log.state.last_batch
        if follows > (-1 if last is None else last.batch_id):
            raise BatchGapError(batch_id=batch_id, log=self.log.path, last="none" if last is None else last.batch_id)

    def _positions(self) -> dict[str, int]:
        """Edges that were dropped stay where they ended: what lies before is no longer needed."""
        last = self.log.state.last_batch
        return {**(last.inputs if last is not None else {}), **self.inputs.positions()}
