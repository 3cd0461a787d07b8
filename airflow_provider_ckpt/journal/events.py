"""The events of a job's journal: the order of everything that happened to the job.

Times are epoch seconds (float, UTC). ``DECISIONS`` are flushed at once, the rest share an entry
through the write buffer (FLIP-383: 1 MiB / 1 s).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class JobCreated:
    """First event of a job: its graph, runtime mode and options, as they were submitted."""

    job_id: str
    graph: Json
    mode: str
    options: Json
    at: float


@dataclass(frozen=True)
class EpochClaimed:
    """A driver took the job over. Never deleted (R3). ``worker``: host, boot_id, pid, started,
    application_id, whatever is known, so that the next driver can make sure that this one is gone (R8)."""

    epoch: int
    attempt: str
    worker: Json
    at: float


@dataclass(frozen=True)
class PlanRecorded:
    """What this epoch runs: the graph, the schemas (vertex uid -> Spark's schema JSON), and the definition, which a
    later start is compared with (``job.definition``; empty in journals of release 0.1)."""

    graph: Json
    schemas: Mapping[str, str]
    at: float
    definition: Json = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFrozen:
    """The end of a bounded source, once and for all attempts (R11). ``path`` is the object under the
    job's folder that lists the files; None for a source that cannot be given an end."""

    uid: str
    path: str | None
    count: int
    at: float


@dataclass(frozen=True)
class StatusChanged:
    """Job status: CREATED, RUNNING, FINISHED, STOPPED, FAILED (terminal), RESTARTING (failed, may be
    retried)."""

    status: str
    at: float
    cause: str | None = None


@dataclass(frozen=True)
class CheckpointTriggered:
    checkpoint: int
    at: float
    kind: str = "checkpoint"
    """checkpoint, final, or savepoint (of a stop)."""


@dataclass(frozen=True)
class CheckpointCompleted:
    """The commit point of a checkpoint. ``subtasks``: "<vertex>/<index>" -> snapshot JSON;
    ``operators``: uid -> "running" | "partially finished" | "finished"."""

    checkpoint: int
    triggered_at: float
    at: float
    kind: str
    subtasks: Mapping[str, Json]
    operators: Mapping[str, str]


@dataclass(frozen=True)
class CheckpointAborted:
    checkpoint: int
    reason: str
    at: float


@dataclass(frozen=True)
class CheckpointReleased:
    """All sinks released everything up to ``checkpoint``. ``sinks``: uid -> what was released (counts)."""

    checkpoint: int
    at: float
    sinks: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceEnded:
    """A bounded inline source is covered by published batches up to ``batch_id`` (R2)."""

    vertex: str
    uid: str
    batch_id: int
    at: float


@dataclass(frozen=True)
class SourceDropped:
    """The next start of the vertex's query leaves the source (or ended edge) out."""

    vertex: str
    uid: str
    batch_id: int
    at: float


@dataclass(frozen=True)
class LateFilesFound:
    """Files that turned up in a bounded source's folder after it was frozen. ``read``: whether they
    came before the source ended and so are in the output."""

    uid: str
    paths: tuple[str, ...]
    read: bool
    at: float


@dataclass(frozen=True)
class Restored:
    """The job was taken back to a completed checkpoint (R4): what ended, was dropped or finished after it is
    running again. ``dropped``: vertex -> uids that were dropped at or before the checkpoint's batches.
    ``anew``: to nothing at all, as no checkpoint covers anything; the ends of its sources are frozen anew."""

    checkpoint: int
    dropped: Mapping[str, Mapping[str, int]]
    at: float
    anew: bool = False


@dataclass(frozen=True)
class SubtaskEndOfData:
    subtask: str
    attempt: str
    at: float


@dataclass(frozen=True)
class SubtaskFinished:
    subtask: str
    attempt: str
    at: float


@dataclass(frozen=True)
class RequestAnswered:
    """A stop or drain request that came through the storage URI was taken (R22)."""

    request: str
    kind: str
    outcome: str
    at: float


@dataclass(frozen=True)
class StateSnapshot:
    """The fold of all events before it, made by a compaction: the head of the journal moves to its entry,
    which holds nothing else. ``state``: what ``state_to_json`` makes."""

    state: Json
    at: float


Event = (
    JobCreated
    | EpochClaimed
    | PlanRecorded
    | SourceFrozen
    | StatusChanged
    | CheckpointTriggered
    | CheckpointCompleted
    | CheckpointAborted
    | CheckpointReleased
    | SourceEnded
    | SourceDropped
    | LateFilesFound
    | Restored
    | SubtaskEndOfData
    | SubtaskFinished
    | RequestAnswered
    | StateSnapshot
)
"""Every event. All but LateFilesFound and RequestAnswered are decisions."""
