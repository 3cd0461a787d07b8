"""Simulated subtasks of a source with splits: the real reading, machine and log; a split is some rows.

The number of splits read together is random, and so is the number that the subtask reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task.split_reading import SplitReading
from tests.simulation.runner import BoundedRunner


class SplitRunner(BoundedRunner):
    reading: SplitReading
    _together = 1

    def _prepare(self, plan: VertexPlan) -> None:
        self._take(SplitReading(self.vertex.uid, self._publication()))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self.reading.assign(splits, is_last=is_last)

    def _run_batch(self, random: Random) -> None:
        splits = self.reading.next(random.choice([1, 1, 2, 3, self._together]))
        if not splits:
            self.reading.end_if_exhausted()
            return
        before, self._together = self._together, random.choice([1, 2, 8])
        number = self.reading.next_batch
        rows = [row for split in splits for row in self.world.split_rows(self.vertex.uid, split)]
        staged = self._staged(number, rows)
        self.reading.complete(Batch(number, {}, **staged, splits=tuple(splits)), together=self._together)
        if self._together < before:
            self.reading.return_surplus(self._together)
