"""A task that reads one split after the other: which is next, and what makes one done.

A split is published by one entry of the subtask's log, which is its completion (R14). Which splits, is the
coordinator's to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.coordinator.reports import SplitCompleted
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
            for split, position in published_in(publication.log, publication.task_id.epoch):
                publication.tell(SplitCompleted(*publication.task_id, split, position))
            return super().deploy(plan)

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        with self.publication.lock:
            self._assigned.assign(splits, is_last=is_last)

    def next(self) -> str | None:
        """The split to read now; None: before :meth:`begin`, and while there is none."""
        with self.publication.lock:
            return self._assigned.next() if self.machine.phase is TaskPhase.RUNNING else None

    @property
    def next_batch(self) -> int:
        """The number of the batch that the next split will be."""
        return self.publication.last_batch() + 1

    def complete(self, split: str, batch: Batch) -> None:
        """Publish ``batch``, which is all of ``split``, and say so before any barrier behind it is acknowledged."""
        with self.publication.lock:
            position = self.publication.publish(batch)
            self._assigned.done(split)
            self.publication.tell(SplitCompleted(*self.publication.task_id, split, position))

    def end_if_exhausted(self) -> None:
        """:meth:`end`, if nothing is left and nothing will come."""
        with self.publication.lock:
            if self._assigned.is_exhausted:
                self.end()
