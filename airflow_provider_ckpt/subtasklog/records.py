"""The records of a subtask's log: one append log per subtask, with one writer, the current attempt.

An entry of the log holds exactly one record. The entry's number is the *position*: "position 7" means that the entries
0 … 6 precede it. Rules R1, R3 and R4 of the protocol are about these records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, Json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.progress import Snapshot, SourceTimes
from airflow_provider_ckpt.model.split import Ranges
from airflow_provider_ckpt.model.supervised_try import SupervisedTry

EndMode = Literal["finish", "drain"]
"""How a subtask's data ended: ``finish`` if all input was read, ``drain`` if a drain ended its live sources."""


@dataclass(frozen=True)
class PartitionFile:
    """One data file of a result partition; ``path`` is relative to the partition's folder."""

    path: str
    size: Count

    @property
    def folder(self) -> str:
        """Name of the folder with all files of this file's batch: ``<attempt>-<batch>-<nonce>``."""
        return self.path.split("/")[-2]


@dataclass(frozen=True)
class Open:
    """The start of a new attempt, which owns the log from here on.

    Args:
        folder: The name of the attempt's Spark checkpoint folder (R8).
        continues_at: The position at which the attempt resumes. Entries between that position and this record are void
            (R4). None voids no entries.
        voids: Positions of other void entries. Their files are lost and are produced again.
        supervised: The supervisor's try that started the worker; None if the supervisor does not count its tries (W14).
    """

    attempt: AttemptId
    epoch: Count
    folder: str
    continues_at: Count | None = None
    voids: Ranges = field(default=(), metadata=OMIT_EMPTY)
    supervised: SupervisedTry | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True)
class Batch:
    """One published micro-batch (R1)."""

    batch_id: Count
    offsets: Mapping[str, str]
    """Source name → Spark's offset JSON, as planned in ``offsets/<batch id>``."""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """Channel → end position (exclusive) of the producer's entries that were read. The last entry may be read in
    part."""
    files: tuple[PartitionFile, ...] = ()
    handles: Mapping[str, Json] = field(default_factory=dict)
    """Sink uid → handle of the output that the sink has staged for this batch."""
    watermark: int | None = None
    """Event time in epoch milliseconds up to which the published output is complete; None without event time.

    For a query with state it is the watermark during the batch, by which the batch closed windows. For any other query
    it is the watermark after the batch.
    """
    ended: tuple[str, ...] = ()
    """Sources and edges read to their end by this batch or an earlier one (R2)."""
    rows: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of rows in ``files``."""
    late_rows: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of late rows that the query has dropped in all its batches up to this one."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Input of a query with state → event times of the input's rows in all batches up to this one."""
    malformed: Mapping[str, Count] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source uid → number of its rows that do not fit its schema, in all batches up to this one."""
    splits: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)
    """The splits that this entry completes (R14); empty for a vertex without splits."""


@dataclass(frozen=True)
class Barrier:
    """A barrier, and the acknowledgement of its checkpoint. All earlier records belong to that checkpoint."""

    epoch: Count
    checkpoint: Count
    snapshot: Snapshot


@dataclass(frozen=True)
class EndOfData:
    """The end of data: no batch follows, but barriers may."""

    mode: EndMode = "finish"


@dataclass(frozen=True)
class EndOfPartition:
    """The end of the partition: no record follows."""


Record = Open | Batch | Barrier | EndOfData | EndOfPartition
