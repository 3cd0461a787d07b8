"""What the coordinator is told (messages) and what it asks for (effects).

Every message of a subtask names its world (epoch, subtask, attempt) or is dropped (R22).
``subtask`` is "<vertex>/<index>". Effects are carried out in order; an effect is carried out only
after the ones before it succeeded (a journal append that fails stops the job).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.partitions.records import Snapshot

# ---- messages


@dataclass(frozen=True)
class SubtaskRunning:
    """The subtask's query runs (again): it can take barriers."""

    epoch: int
    subtask: str
    attempt: str


@dataclass(frozen=True)
class SubtaskAtEndOfData:
    """End of data is in the subtask's log."""

    epoch: int
    subtask: str
    attempt: str
    mode: Literal["finish", "drain"] = "finish"


@dataclass(frozen=True)
class SubtaskDone:
    """The subtask carried out FinishSubtask: end of partition is in its log, its resources are back."""

    epoch: int
    subtask: str
    attempt: str


@dataclass(frozen=True)
class SubtaskFailed:
    epoch: int
    subtask: str
    attempt: str
    cause: str
    terminal: bool = False


@dataclass(frozen=True)
class BarrierAcknowledged:
    epoch: int
    subtask: str
    attempt: str
    checkpoint: int
    snapshot: Snapshot


@dataclass(frozen=True)
class BarrierDeclined:
    epoch: int
    subtask: str
    attempt: str
    checkpoint: int
    reason: str
    """Name of a CheckpointFailureReason."""
    detail: str = ""
    """What went wrong, for the cause of a run that ends because of it."""


@dataclass(frozen=True)
class SourceAtEnd:
    """An inline bounded source, or an ended input edge, of a vertex is covered by published batches."""

    epoch: int
    subtask: str
    attempt: str
    uid: str
    batch_id: int
    droppable: bool = True
    """False if it is the vertex's last source: then the vertex ends instead."""


@dataclass(frozen=True)
class StoppedAtBoundary:
    """DropSource was prepared: the query stands still, newest offsets = newest commits = ``batch_id``."""

    epoch: int
    subtask: str
    attempt: str
    uid: str
    batch_id: int


@dataclass(frozen=True)
class ReleaseDone:
    epoch: int
    checkpoint: int
    sinks: dict[str, dict[str, int]]


@dataclass(frozen=True)
class ReleaseFailed:
    epoch: int
    checkpoint: int
    cause: str
    terminal: bool = False


@dataclass(frozen=True)
class StopRequested:
    """``stop``: savepoint, release, exit, sources not finished. ``drain``: sources end where they
    stand, everything in flight is processed, final checkpoint, FINISHED."""

    mode: Literal["stop", "drain"]
    request: str | None = None
    """The name under which it is answered; None: nobody asks for an answer."""
    leaves: bool = False
    """Of a stop: the job has to leave (its time is over, its process is told to go), also when no savepoint
    can be had. Else a stop that fails leaves it running."""


Message = (
    SubtaskRunning
    | SubtaskAtEndOfData
    | SubtaskDone
    | SubtaskFailed
    | BarrierAcknowledged
    | BarrierDeclined
    | SourceAtEnd
    | StoppedAtBoundary
    | ReleaseDone
    | ReleaseFailed
    | StopRequested
)

# ---- effects


@dataclass(frozen=True)
class Append:
    """Append the event to the journal; ``flush`` = durable before the next effect."""

    event: Event
    flush: bool = True


@dataclass(frozen=True)
class TriggerBarrier:
    """Ask a subtask of the plan's trigger list to append barrier (epoch, checkpoint). Barriers reach the
    subtasks behind it through the result partitions."""

    subtask: str
    attempt: str
    epoch: int
    checkpoint: int


@dataclass(frozen=True)
class NotifyCompleted:
    subtask: str
    checkpoint: int


@dataclass(frozen=True)
class Release:
    """Release everything staged up to the checkpoint's positions, in every sink; answered by
    ReleaseDone or ReleaseFailed. Never two at once, strictly ascending (R9)."""

    checkpoint: int


@dataclass(frozen=True)
class DropSource:
    """Stop the vertex's query at a boundary so that ``uid`` can be left out; answer StoppedAtBoundary."""

    subtask: str
    uid: str


@dataclass(frozen=True)
class ResumeWithout:
    """The drop of ``uid`` is in the journal: start the query again without it; answer SubtaskRunning."""

    subtask: str
    uid: str


@dataclass(frozen=True)
class DrainSubtask:
    """End the unbounded sources of this subtask where they stand; it goes to end of data (mode drain)."""

    subtask: str


@dataclass(frozen=True)
class FinishSubtask:
    """The subtask may close (final checkpoint released if it has sinks); answer SubtaskDone."""

    subtask: str


@dataclass(frozen=True)
class EndJob:
    """Stop all queries and leave. ``status``: FINISHED, STOPPED, FAILED (terminal) or RESTARTING."""

    status: Literal["FINISHED", "STOPPED", "FAILED", "RESTARTING"]
    cause: str | None = None


Effect = (
    Append
    | TriggerBarrier
    | NotifyCompleted
    | Release
    | DropSource
    | ResumeWithout
    | DrainSubtask
    | FinishSubtask
    | EndJob
)
