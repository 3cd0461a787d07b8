"""What the coordinator is told (messages) and what it asks for (effects).

Messages of a subtask are *reports*, effects that a subtask carries out are *commands*; both name their world (epoch,
subtask, attempt) or are dropped (R22), and both have a JSON form (``coordinator.wire``). ``subtask`` is
"<vertex>/<index>". Effects are carried out in order; an effect is carried out only after the ones before it
succeeded (a journal append that fails stops the job).
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
    """``cause``: what went wrong, in words. ``error``, ``traceback``: of the user's own code, if it was that."""

    epoch: int
    subtask: str
    attempt: str
    cause: str
    terminal: bool = False
    error: str | None = None
    traceback: str | None = None


@dataclass(frozen=True)
class SubtaskFenced:
    """The subtask found a later attempt in its log, or a later epoch in the journal: this driver is over. For the
    JobMaster, not for the coordinator."""

    epoch: int
    subtask: str
    attempt: str
    cause: str


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


Report = (
    SubtaskRunning
    | SubtaskAtEndOfData
    | SubtaskDone
    | SubtaskFailed
    | BarrierAcknowledged
    | BarrierDeclined
    | SourceAtEnd
    | StoppedAtBoundary
)
Message = Report | ReleaseDone | ReleaseFailed | StopRequested

# ---- commands: the effects that a subtask carries out. ``attempt`` is None if the coordinator has heard of none yet:
# then it is meant for the one that this epoch starts.


@dataclass(frozen=True)
class TriggerBarrier:
    """Append barrier (epoch, checkpoint): for a subtask of the plan's trigger list. Barriers reach the subtasks
    behind it through the result partitions."""

    epoch: int
    subtask: str
    attempt: str | None
    checkpoint: int


@dataclass(frozen=True)
class DropSource:
    """Stop the vertex's query at a boundary so that ``uid`` can be left out; answer StoppedAtBoundary."""

    epoch: int
    subtask: str
    attempt: str | None
    uid: str


@dataclass(frozen=True)
class ResumeWithout:
    """The drop of ``uid`` is in the journal: start the query again without it; answer SubtaskRunning."""

    epoch: int
    subtask: str
    attempt: str | None
    uid: str


@dataclass(frozen=True)
class DrainSubtask:
    """End the unbounded sources of this subtask where they stand; it goes to end of data (mode drain)."""

    epoch: int
    subtask: str
    attempt: str | None


@dataclass(frozen=True)
class FinishSubtask:
    """The subtask may close (final checkpoint released if it has sinks); answer SubtaskDone."""

    epoch: int
    subtask: str
    attempt: str | None


Command = TriggerBarrier | DropSource | ResumeWithout | DrainSubtask | FinishSubtask

# ---- effects


@dataclass(frozen=True)
class Append:
    """Append the event to the journal; ``flush`` = durable before the next effect."""

    event: Event
    flush: bool = True


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
class EndJob:
    """Stop all queries and leave. ``status``: FINISHED, STOPPED, FAILED (terminal) or RESTARTING."""

    status: Literal["FINISHED", "STOPPED", "FAILED", "RESTARTING"]
    cause: str | None = None


Effect = Command | Append | NotifyCompleted | Release | EndJob
