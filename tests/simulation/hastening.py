"""Subtasks that report their micro-batches, like subtasks with live sources in the JobMaster's process."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.coordinator.protocol.reports import BatchPublished
from tests.simulation.runner import StreamingRunner


class HasteningRunner(StreamingRunner):
    def _run_batch(self, random: Random) -> None:
        before = self.publication.last_batch()
        super()._run_batch(random)
        if self.publication.last_batch() != before:
            self.outbox.append(BatchPublished(*self.task_id))
