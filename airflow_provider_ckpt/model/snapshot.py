"""What a subtask had published when it took a barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.source_times import SourceTimes


@dataclass(frozen=True)
class Snapshot:
    """What a barrier folds (and so what an acknowledgement carries): all published up to ``position``."""

    position: Count
    """Number of the entry that holds the barrier."""
    batch_id: Count | None
    offsets: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    watermark: int | None = None
    """Of the last batch: event time in epoch milliseconds up to which what was published is complete."""
    ended: tuple[str, ...] = ()
    finished: bool = False
    """The subtask is at its end of data: nothing but barriers follows."""
    late_rows: Count = field(default=0, metadata=LATER)
    """Rows that the query has dropped as late since its first micro-batch."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict, metadata=LATER)
    """Input of a query with state -> what its rows have shown of event time since its first micro-batch."""
    malformed: Mapping[str, Count] = field(default_factory=dict, metadata=LATER)
    """Source uid -> its rows since the first batch that do not fit its schema."""
    finished_on_restore: bool = False
