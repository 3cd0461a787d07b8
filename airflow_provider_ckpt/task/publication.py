"""The published entries of a task's log and the reports about them, in one order.

A barrier is appended at the last published entry. It does not wait for the data that is being read (R19).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.protocol.reports import BarrierAcknowledged, BarrierDeclined, Report
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.counts import added
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.subtasklog.records import Batch, EndMode
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


class Publication:
    """The publication of one attempt of one subtask. All threads publish, trigger and end through it.

    ``lock`` guards the order of log entries and reports, together with the state that must agree with them (the task's
    machine and inputs). It is never held while Spark works, because a batch may take hours and a barrier must pass
    meanwhile. Methods that append raise the errors of :class:`SubtaskLog`.

    Args:
        log: the subtask's log.
        task_id: the id of the task, with which its reports begin.
        tell: posts a report. It must not block.
        notify: notifies the consumers of new entries. It must not block.
    """

    def __init__(
        self, log: SubtaskLog, task_id: TaskId, *, tell: Callable[[Report], None], notify: Callable[[], None]
    ) -> None:
        self.log, self.task_id, self.tell = log, task_id, tell
        self.lock = threading.RLock()
        self._notify = notify

    def trigger(self, checkpoint: int) -> bool:
        """Append the barrier at the last published entry and acknowledge it. Return whether it is in the log.

        If the storage does not accept it now, it is declined, and the coordinator decides whether the run survives. If
        an earlier append has broken the log, nothing is reported. The failure of the task is already on its way, and
        aborts the checkpoint without counting it against the job.
        """
        with self.lock:
            try:
                snapshot = self.log.barrier(self.task_id.epoch, checkpoint)
            except TransientError as error:
                if self.log.is_broken:
                    return False
                self.tell(BarrierDeclined(*self.task_id, checkpoint, IO_EXCEPTION, detail=str(error)))
                return False
            self.tell(BarrierAcknowledged(*self.task_id, checkpoint, snapshot))
            self._notify()
            return True

    def publish(self, batch: Batch) -> int:
        """Append the entry that publishes the batch.

        Return its position. ``batch.malformed`` counts rows of this batch only.
        """
        with self.lock:
            position = self.log.publish(self._with_malformed_before(batch))
            self._notify()
            return position

    def end_of_data(self, mode: EndMode) -> None:
        with self.lock:
            self.log.end_of_data(mode)
            self._notify()

    def end_of_partition(self) -> None:
        with self.lock:
            self.log.end_of_partition()
            self._notify()

    def _with_malformed_before(self, batch: Batch) -> Batch:
        """Return the batch with the malformed rows of the batches before it."""
        last = self.log.state.last_batch
        if last is None or not last.malformed:
            return batch
        return replace(batch, malformed=added(last.malformed, batch.malformed))

    def last_batch(self) -> int:
        """Return the number of the last published batch, -1 if there is none."""
        last = self.log.state.last_batch
        return -1 if last is None else last.batch_id
