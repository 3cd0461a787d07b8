"""The published state of a subtask at a barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.source_times import SourceTimes


@dataclass(frozen=True)
class Snapshot:
    """The state that all entries up to ``position`` add up to. A barrier, and so its acknowledgement, contains it."""

    position: Count
    """Number of the entry that contains the barrier."""
    batch_id: Count | None
    offsets: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    watermark: int | None = None
    """Watermark of the last batch: event time in epoch milliseconds up to which the published output is complete."""
    ended: tuple[str, ...] = ()
    finished: bool = False
    """True if the subtask is at its end of data: only barriers follow."""
    late_rows: Count = field(default=0, metadata=OMIT_EMPTY)
    """Rows that the query has dropped as late since its first micro-batch."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Input of a query with state → event times in its rows since its first micro-batch."""
    malformed: Mapping[str, Count] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source uid -> its rows since the first batch that do not fit its schema."""
    finished_on_restore: bool = False
