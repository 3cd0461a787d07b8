"""A subtask of a source with splits in the simulation: the real reading, machine and log; a split is some rows."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.task.split_reading import SplitReading
from tests.simulation.runner import BoundedRunner


class SplitRunner(BoundedRunner):
    reading: SplitReading

    def _prepare(self, plan: VertexPlan) -> None:
        self._take(SplitReading(self.vertex.uid, self._publication()))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self.reading.assign(splits, is_last=is_last)

    def _run_batch(self, random: Random) -> None:
        split = self.reading.next()
        if split is None:
            self.reading.end_if_exhausted()
            return
        number = self.reading.next_batch
        staged = self._staged(number, self.world.split_rows(self.vertex.uid, split))
        self.reading.complete(split, Batch(number, {}, split=split, **staged))
