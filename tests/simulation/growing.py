"""Subtasks that tell of their micro-batches, and now and then that Spark's log of what they read has grown:
again and again, until they begin anew."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.coordinator.reports import SourceLogGrown
from tests.simulation.hastening import HasteningRunner


class GrowingRunner(HasteningRunner):
    def _run_batch(self, random: Random) -> None:
        before = self.publication.last_batch()
        super()._run_batch(random)
        if self.publication.last_batch() != before and random.random() < 0.3:
            self.outbox.append(SourceLogGrown(*self.task_id))
