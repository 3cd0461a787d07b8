"""Subtasks that report their micro-batches and, at times, a grown source log of Spark's, until they are replaced."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.coordinator.protocol.reports import SourceLogGrown
from tests.simulation.hastening import HasteningRunner


class GrowingRunner(HasteningRunner):
    def _run_batch(self, random: Random) -> None:
        before = self.publication.last_batch()
        super()._run_batch(random)
        if self.publication.last_batch() != before and random.random() < 0.3:
            self.outbox.append(SourceLogGrown(*self.task_id))
