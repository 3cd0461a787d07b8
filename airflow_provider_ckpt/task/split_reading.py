"""The course of a task that reads splits, one after the other or small ones together.

One entry of the subtask's log publishes a split and completes it (R14). An entry may complete several splits. The
coordinator assigns the splits.
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
    """A task that reads splits of source ``uid``."""

    def __init__(self, uid: str, publication: Publication) -> None:
        super().__init__([uid], publication)
        self._assigned = AssignedSplits()

    def deploy(self, plan: VertexPlan) -> bool:
        """Start with ``plan``, and first report the splits that earlier attempts of this epoch have published.

        Those attempts may not have reported them.
        """
        publication = self.publication
        with publication.lock:
            for splits, position in published_in(publication.log, publication.task_id.epoch):
                publication.tell(SplitsCompleted(*publication.task_id, splits, position))
            return super().deploy(plan)

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        with self.publication.lock:
            self._assigned.assign(splits, is_last=is_last)

    def next(self, most: int = 1) -> tuple[str, ...]:
        """Return the splits to read now, at most ``most``.

        Return none before :meth:`begin`, and while none is assigned.
        """
        with self.publication.lock:
            return self._assigned.next(most) if self.machine.phase is TaskPhase.RUNNING else ()

    @property
    def next_batch(self) -> int:
        """Return the number of the batch for the next splits."""
        return self.publication.last_batch() + 1

    def complete(self, batch: Batch, *, together: int = 1) -> None:
        """Publish ``batch``, which holds all rows of the splits that it completes, and report these splits.

        The report precedes the acknowledgement of any later barrier. ``together`` is the number of splits to read
        together next.
        """
        with self.publication.lock:
            position = self.publication.publish(batch)
            self._assigned.done(batch.splits)
            self.publication.tell(SplitsCompleted(*self.publication.task_id, batch.splits, position, together))

    def reads_fewer(self, together: int) -> None:
        """Return surplus splits to the coordinator, because ``together`` is now lower.

        Other subtasks may have time for them.
        """
        with self.publication.lock:
            given = self._assigned.give_back(AHEAD * together)
            self.publication.tell(SplitsReturned(*self.publication.task_id, given, together))

    def end_if_exhausted(self) -> None:
        """Call :meth:`end` if no split is left and no further one will come."""
        with self.publication.lock:
            if self._assigned.is_exhausted:
                self.end()
