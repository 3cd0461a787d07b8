"""Subtasks that tell when their micro-batches begin and end, as those of a driver's own process do."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.coordinator.reports import BatchUnderWay
from tests.simulation.runner import StreamingRunner


class ForeseeingRunner(StreamingRunner):
    """Some batches take longer than foreseen, and some never end, for all that the coordinator hears."""

    def _run_batch(self, random: Random) -> None:
        before = self.publication.last_batch()
        begun = BatchUnderWay(*self.task_id, random.choice((0.1, 0.5, 3.0)))
        told = len(self.outbox)
        super()._run_batch(random)
        if self.publication.last_batch() == before:
            return
        self.outbox.insert(told, begun)
        if random.random() < 0.8:
            self.outbox.append(BatchUnderWay(*self.task_id, None))
