"""What one attempt of one subtask has beside what all tasks of its driver share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.coordinator.reports import DataAvailable, TaskReport
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.task.context import RunContext


class AttemptContext:
    """``log``: the subtask's, opened by ``attempt``. Any thread may call any of this."""

    def __init__(self, run: RunContext, subtask: SubtaskId, attempt: AttemptId, log: SubtaskLog) -> None:
        self.run, self.subtask, self.attempt, self.log = run, subtask, attempt, log

    def post(self, kind: Callable[..., TaskReport], **fields: Any) -> None:
        """Tell the JobMaster: a report of ``kind``, with these fields beside epoch, subtask and attempt."""
        self.run.post(kind(epoch=self.run.epoch, subtask=self.subtask, attempt=self.attempt, **fields))

    def notify_consumers(self) -> None:
        consumers = tuple(consumer for consumer, _ in readers(self.run.graph, self.subtask))
        if consumers:
            self.post(DataAvailable, consumers=consumers)

    def check_fenced(self) -> None:
        """Raises FencedError or LogFencedError if a later driver owns the job or the log (R8)."""
        self.run.check_fenced()
        self.log.check_fenced()
