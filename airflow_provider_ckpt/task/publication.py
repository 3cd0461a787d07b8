"""What of a task counts, and in which order: the entries of its log, beside the gate of its inputs.

A barrier is appended at the last published entry, without waiting for the micro-batch that is running (R19). What lies
behind a barrier of an input is published after the barrier is in the task's own log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.reports import BarrierAcknowledged, BarrierDeclined
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.partitions.errors import BatchGapError
from airflow_provider_ckpt.partitions.input_gate import TakeSnapshot
from airflow_provider_ckpt.partitions.records import Batch, PartitionFile
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.inputs import Inputs


class Publication:
    """Of one attempt of one subtask. ``lock`` guards the log's order together with the inputs: whoever looks at both
    holds it. ``tell`` posts a report: its kind, and its fields beside epoch, subtask and attempt. ``notify``: the
    consumers have something to look at."""

    def __init__(
        self,
        log: SubtaskLog,
        inputs: Inputs,
        *,
        epoch: int,
        dropped: frozenset[str],
        tell: Callable[..., None],
        notify: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log, self.inputs, self.dropped = log, inputs, dropped
        """``dropped``: sources and edges that the query leaves out."""
        self.lock = threading.RLock()
        self._epoch, self._tell, self._notify, self._clock = epoch, tell, notify, clock

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier at the last published entry and acknowledge it, or decline it if the storage does not
        take it now: whether the run survives that is the coordinator's to judge."""
        with self.lock:
            try:
                snapshot = self.log.barrier(self._epoch, checkpoint)
            except TransientError as error:
                self._tell(BarrierDeclined, checkpoint=checkpoint, reason=IO_EXCEPTION, detail=str(error))
                return
            self.inputs.gate.snapshotted(checkpoint)
        self._tell(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)
        self._notify()

    def act_on_inputs(self) -> None:
        """Snapshot where a barrier is due, feed what may be read. The caller holds the lock."""
        for action in self.inputs.pull(self._clock()):
            if isinstance(action, TakeSnapshot):
                self.trigger(action.checkpoint)
            else:
                self.inputs.carry_out(action)

    def resume(self) -> None:
        """Catch up with what the log says that was read, and of which barriers: before anything else."""
        barriers = [checkpoint for epoch, checkpoint in self.log.state.barriers if epoch == self._epoch]
        self.inputs.gate.snapshotted(max(barriers, default=0))
        last = self.log.state.last_batch
        if last is not None:
            self.inputs.advance(last.offsets)
            self.inputs.published()

    def publish(
        self,
        batch_id: int,
        offsets: Mapping[str, str],
        *,
        files: tuple[PartitionFile, ...] = (),
        handles: Mapping[str, Mapping[str, Any]],
        watermark: int | None = None,
    ) -> None:
        """Append the entry that makes a micro-batch count. The caller holds the lock. Raises BatchGapError."""
        self._refuse_gap(batch_id)
        self.inputs.advance(offsets)
        self.act_on_inputs()  # unaligned, a barrier that has arrived is put now, and not behind this batch
        self.log.publish(
            Batch(
                batch_id=batch_id,
                offsets=offsets,
                inputs=self._positions(),
                files=files,
                handles={uid: dict(handle) for uid, handle in handles.items()},
                watermark=watermark,
                ended=tuple(sorted(self.inputs.ended() | self.dropped)),
            )
        )
        self.inputs.published()
        self.act_on_inputs()  # aligned, the batch may have been all that the snapshot waited for

    def last_batch(self) -> int:
        """-1 if none was published."""
        last = self.log.state.last_batch
        return -1 if last is None else last.batch_id

    def _refuse_gap(self, batch_id: int) -> None:
        """Spark numbers the batches of a folder one after the other: one that is missing was in an entry that is
        gone."""
        last = self.log.state.last_batch
        following = 0 if last is None else last.batch_id + 1
        if batch_id > following:
            raise BatchGapError(batch_id=batch_id, log=self.log.path, last="none" if last is None else last.batch_id)

    def _positions(self) -> dict[str, int]:
        """Edges that were dropped stay where they ended: what lies before is no longer needed."""
        last = self.log.state.last_batch
        return {**(last.inputs if last is not None else {}), **self.inputs.positions()}
