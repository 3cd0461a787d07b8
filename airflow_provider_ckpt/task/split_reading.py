"""A task that reads splits, one after the other or small ones together: which are next, and what makes them done.

A split is published by one entry of the subtask's log, which is its completion (R14). An entry may be that of several.
Which splits, is the coordinator's to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.coordinator.enumerator import AHEAD
from airflow_provider_ckpt.coordinator.reports import SplitsCompleted, SplitsReturned
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.task.assigned_splits import AssignedSplits, published_in
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.phase import TaskPhase
from airflow_provider_ckpt.task.publication import Publication


class SplitReading(BoundedReading):
    """``uid``: of the source."""

    def __init__(self, uid: str, publication: Publication) -> None:
        super().__init__([uid], publication)
        self._assigned = AssignedSplits()

    def deploy(self, plan: VertexPlan) -> bool:
        """What attempts before of this epoch have published is told first: they may not have said so."""
        publication = self.publication
        with publication.lock:
            for splits, position in published_in(publication.log, publication.task_id.epoch):
                publication.tell(SplitsCompleted(*publication.task_id, splits, position))
            return super().deploy(plan)

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        with self.publication.lock:
            self._assigned.assign(splits, is_last=is_last)

    def next(self, most: int = 1) -> tuple[str, ...]:
        """The splits to read now, ``most`` at the most; none: before :meth:`begin`, and while there is none."""
        with self.publication.lock:
            return self._assigned.next(most) if self.machine.phase is TaskPhase.RUNNING else ()

    @property
    def next_batch(self) -> int:
        """The number of the batch that the next splits will be."""
        return self.publication.last_batch() + 1

    def complete(self, batch: Batch, *, together: int = 1) -> None:
        """Publish ``batch``, all of the splits that it completes, and say so before any barrier behind it is
        acknowledged. ``together``: so many are going to be read together next, if they are there."""
        with self.publication.lock:
            position = self.publication.publish(batch)
            self._assigned.done(batch.completes)
            self.publication.tell(SplitsCompleted(*self.publication.task_id, batch.completes, position, together))

    def reads_fewer(self, together: int) -> None:
        """So many together from here on, fewer than before: what was handed out for more is for whoever has time."""
        with self.publication.lock:
            given = self._assigned.give_back(AHEAD * together)
            self.publication.tell(SplitsReturned(*self.publication.task_id, given, together))

    def end_if_exhausted(self) -> None:
        """:meth:`end`, if nothing is left and nothing will come."""
        with self.publication.lock:
            if self._assigned.is_exhausted:
                self.end()
