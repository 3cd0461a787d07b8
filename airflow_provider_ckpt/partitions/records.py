"""The records of a subtask's log (one append log per subtask, one writer: its current attempt).

An entry of the log holds exactly one record. The entry's number is the *position*: "position 7"
means the entries 0 … 6 lie before it. Rules R1, R3 and R4 of the protocol are about these records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.json_form import LATER, Json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.source_times import SourceTimes
from airflow_provider_ckpt.model.split import Ranges
from airflow_provider_ckpt.model.supervised_try import SupervisedTry

EndMode = Literal["finish", "drain"]
"""How data end: all that was to be read is read, or the unbounded sources were told to end where they stand."""


@dataclass(frozen=True)
class PartitionFile:
    """One data file of a result partition; ``path`` is relative to the partition's folder."""

    path: str
    size: Count

    @property
    def folder(self) -> str:
        """Of what was staged with it: ``<attempt>-<batch>-<nonce>``."""
        return self.path.split("/")[-2]


@dataclass(frozen=True)
class Open:
    """A new attempt of the subtask owns the log from here on.

    ``folder`` names the attempt's own Spark checkpoint folder (R8). ``continues_at`` is the position
    this attempt continues at: entries between it and this record are void (R4); None = nothing is void. ``voids``:
    positions of entries that are void besides, wherever they are: what they name is gone, and is produced again.
    ``supervised``: which try it is of whoever begins the subtask's workers, if that one counts them (W14).
    """

    attempt: AttemptId
    epoch: Count
    folder: str
    continues_at: Count | None = None
    voids: Ranges = field(default=(), metadata=LATER)
    supervised: SupervisedTry | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Batch:
    """One published micro-batch (R1)."""

    batch_id: Count
    offsets: Mapping[str, str]
    """Source name -> Spark's offset JSON, as planned in ``offsets/<batch id>``."""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """Edge uid -> position in the producer's log up to which (exclusive) entries were read."""
    files: tuple[PartitionFile, ...] = ()
    handles: Mapping[str, Json] = field(default_factory=dict)
    """Sink uid -> staged handle."""
    watermark: int | None = None
    """Event time in epoch milliseconds up to which what was published is complete: of a query that keeps state the
    watermark that the batch ran with, and so closed its windows with; of any other the one after the batch. None if the
    query has seen no event time."""
    ended: tuple[str, ...] = ()
    """Sources and edges read to their end by this batch or an earlier one (R2)."""
    split: str | None = field(default=None, metadata=LATER)
    """Of a source with splits: the one that this entry completes (R14). None if it completes several."""
    rows: Count | None = field(default=None, metadata=LATER)
    """In ``files``. None if there are none, or if an earlier release wrote them."""
    late_rows: Count = field(default=0, metadata=LATER)
    """Rows that the query has dropped as late since its first micro-batch, this one included."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict, metadata=LATER)
    """Input of a query with state -> what its rows have shown of event time, this micro-batch included."""
    malformed: Mapping[str, Count] = field(default_factory=dict, metadata=LATER)
    """Source uid -> its rows since the first batch, this one included, that do not fit its schema."""
    splits: tuple[str, ...] = field(default=(), metadata=LATER)
    """Two or more that this entry completes. Releases that read one by one refuse it by the name of the field."""

    @property
    def completes(self) -> tuple[str, ...]:
        """The splits of this entry, one or several; none of any other vertex."""
        return self.splits if self.split is None else (self.split,)

    def completing(self, splits: Sequence[str]) -> Batch:
        """The same as the completion of these. One alone is written as it always was."""
        one = len(splits) == 1
        return replace(self, split=splits[0] if one else None, splits=() if one else tuple(splits))


@dataclass(frozen=True)
class Barrier:
    """What lies before belongs to checkpoint ``checkpoint`` of ``epoch``; it is the acknowledgement."""

    epoch: Count
    checkpoint: Count
    snapshot: Snapshot


@dataclass(frozen=True)
class EndOfData:
    """No more batches; barriers may follow."""

    mode: EndMode = "finish"


@dataclass(frozen=True)
class EndOfPartition:
    """Nothing follows."""


Record = Open | Batch | Barrier | EndOfData | EndOfPartition
