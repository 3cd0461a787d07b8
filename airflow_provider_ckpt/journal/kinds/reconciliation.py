"""Results that a resumed job in batch mode keeps, and subtasks that run again (FLIP-383)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.sources import Sources
from airflow_provider_ckpt.journal.kinds.splits import Splits
from airflow_provider_ckpt.journal.kinds.subtasks import Subtasks
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.split import Ranges, difference


@dataclass(frozen=True)
class Reset:
    """A subtask that runs again.

    Args:
        positions: Positions of void entries in the subtask's log. Files of these entries are gone.
        consumer: Subtask that must read the result. It is ``subtask`` itself if the result must outlive the job, or,
            with empty ``positions``, if the log is gone.
        splits: Splits of the void entries; None for a vertex without splits, whose whole output is void.
    """

    subtask: SubtaskId
    positions: Ranges
    consumer: SubtaskId
    splits: Ranges | None = None


@dataclass
class Reconciled(Sources, Splits, Subtasks):
    reconciled: JobReconciled | None = field(default=None, metadata=OMIT_EMPTY)
    """The last reconciliation."""


@dataclass(frozen=True)
class JobReconciled(JournalEvent):
    """A resumed job keeps the results of ``kept``, and runs ``reset`` again (Flink: ExecutionVertexReset).

    The event is written after the claim and before any log is opened. If the driver dies before it
    opens a log, the next driver derives the same event from logs and partitions.

    Args:
        kept: Subtasks at their end of data that do not run again.
        splits_kept: Source → number of the source's splits that are done and are not read again.
    """

    epoch: Count
    kept: tuple[SubtaskId, ...]
    splits_kept: Mapping[str, int]
    reset: tuple[Reset, ...]
    at: Instant

    def apply(self, state: Reconciled) -> None:
        state.reconciled = self
        for reset in self.reset:
            state.end_of_data.discard(reset.subtask)
            state.finished.discard(reset.subtask)
            source = reset.subtask.vertex
            state.ended.pop(source, None)
            if reset.splits is not None:
                state.splits_done[source] = difference(state.splits_done.get(source, ()), reset.splits)
