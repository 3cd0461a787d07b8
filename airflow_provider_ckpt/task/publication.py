"""What of a task counts, and what is told of it, in one order: the entries of its log, and the reports about them.

A barrier is appended at the last published entry, without waiting for what is being read (R19).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.reports import BarrierAcknowledged, BarrierDeclined, Report
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.counts import added
from airflow_provider_ckpt.model.task_id import TaskId
from airflow_provider_ckpt.partitions.records import Batch, EndMode
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog


class Publication:
    """Of one attempt of one subtask: whoever publishes, triggers or ends, in whatever thread, does it here.

    ``lock`` guards the order of the log and of the reports together with what the task goes by beside them (its
    machine, its inputs): whoever looks at both holds it. Nobody holds it while Spark works: a batch takes hours, and a
    barrier passes meanwhile. ``task_id``: whose publication it is; its reports begin with it. ``tell`` posts a
    report. ``notify``: the consumers have something to look at. Neither may block.

    What appends raises what :class:`SubtaskLog` raises.
    """

    def __init__(
        self, log: SubtaskLog, task_id: TaskId, *, tell: Callable[[Report], None], notify: Callable[[], None]
    ) -> None:
        self.log, self.task_id, self.tell = log, task_id, tell
        self.lock = threading.RLock()
        self._notify = notify

    def trigger(self, checkpoint: int) -> bool:
        """Append the barrier at the last published entry and acknowledge it, or decline it if the storage does not
        take it now: whether the run survives that is the coordinator's to judge. Returns whether it is there.

        Nothing is said for a log that an append before has broken: word of that is on its way, and the failure of the
        task aborts the checkpoint, which is not held against the job."""
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
        """Append the entry that makes the batch count; returns its position. ``batch.malformed``: rows of the batch."""
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
        """-1 if none was published."""
        last = self.log.state.last_batch
        return -1 if last is None else last.batch_id
