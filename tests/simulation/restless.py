"""A controller that requests random changes whenever it is called."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.job.controller import Controller, JobMetrics
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration


class Restless(Controller):
    """A controller that requests random changes, some of them impossible. ``called_at``: times of the calls.

    A controller that raises is not called again.
    """

    every = 0.5
    cool_down = 2.0

    def __init__(self, random: Random) -> None:
        self._random = random
        self.called_at: list[float] = []

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        random, change = self._random, Reconfiguration("it is restless")
        self.called_at.append(now)
        if random.random() < 0.02:
            raise ValueError("it is tired")
        for uid in metrics.queries:
            if random.random() < 0.4:
                change.assign_resources(uid, pool_weight=random.randint(1, 3))
            elif random.random() < 0.2:
                change.rescale(uid, state_partitions=random.randint(1, 3))
        for uid in metrics.sources:
            if random.random() < 0.4:
                change.rescale(uid, parallelism=random.randint(1, 6))
        return change if random.random() < 0.8 else None
