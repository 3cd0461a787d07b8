"""What was kept of a job in BATCH mode, and what is run again, when somebody went on with it (FLIP-383)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.sources import Sources
from airflow_provider_ckpt.journal.kinds.splits import Splits
from airflow_provider_ckpt.journal.kinds.subtasks import Subtasks
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.split import Ranges, difference
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass(frozen=True)
class Reset:
    """A subtask that is run again. ``positions``: of the entries of its log that are void, as files that they name are
    gone; ``splits``: what they are of, of a source with splits; of any other vertex all that it has published is void.
    ``consumer``: who is to read it. No positions, and the subtask itself: it was at its end, and its log is gone."""

    subtask: SubtaskId
    positions: Ranges
    consumer: SubtaskId
    splits: Ranges | None = None


@dataclass
class Reconciled(Sources, Splits, Subtasks):
    reconciled: JobReconciled | None = field(default=None, metadata=LATER)
    """The last time."""


@dataclass(frozen=True)
class JobReconciled(JournalEvent):
    """Somebody goes on with the job: this is what it keeps, and what is reset (Flink's ExecutionVertexReset). Written
    after the claim, and before any log is opened for it: whoever follows a driver that died in between finds the same,
    by the logs and the partitions, once more.

    ``kept``: subtasks at their end of data that are not run again; ``splits_kept``: source -> how many of its splits
    are done, and stay so."""

    epoch: Count
    kept: tuple[SubtaskId, ...]
    splits_kept: Mapping[str, int]
    reset: tuple[Reset, ...]
    at: Instant

    def apply(self, state: Reconciled) -> None:
        state.reconciled = self
        for one in self.reset:
            state.end_of_data.discard(one.subtask)
            state.finished.discard(one.subtask)
            source = one.subtask.vertex
            state.ended.pop(source, None)
            if one.splits is not None:
                state.splits_done[source] = difference(state.splits_done.get(source, ()), one.splits)
