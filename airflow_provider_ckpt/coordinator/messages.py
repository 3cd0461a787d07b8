"""What the coordinator is told (messages) and what it asks for (effects).

Messages of a subtask are *reports*, effects that a subtask carries out are *commands*; both name their world (epoch,
subtask, attempt) or are dropped (R22), and both have a JSON form (``coordinator.wire``). ``subtask`` is
"<vertex>/<index>". Effects are carried out in order; an effect is carried out only after the ones before it
succeeded (a journal append that fails stops the job).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.job_status import RunEnd
from airflow_provider_ckpt.model.json_form import own_form
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.tagged import Tagged

# ---- messages


@dataclass(frozen=True)
class DropSource:
    """A reason to stand still: ``uid``, a source or an input edge that was read to its end, is to be left out."""

    uid: str


PauseReason = DropSource
"""Why a subtask stands still. A new reason is one more of these, and a ``PlanChanges`` in the coordinator."""
_REASONS: Tagged[PauseReason] = Tagged([DropSource])
_REASON = own_form(_REASONS.to_json, _REASONS.from_json)


@dataclass(frozen=True)
class VertexPlan:
    """What a subtask runs: the graph's vertex without ``dropped``, all that is left out and not just what is new.
    ``number``: 0 as deployed; one more at each resume."""

    number: int
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class SubtaskRunning:
    """The subtask's query runs (again), under its plan number ``plan``: it can take barriers."""

    epoch: int
    subtask: str
    attempt: str
    plan: int = 0


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
class SubtaskPaused:
    """The query stands still, as PauseSubtask asked: newest offsets = newest commits = ``batch_id``, -1 if there is
    none."""

    epoch: int
    subtask: str
    attempt: str
    reason: PauseReason = field(metadata=_REASON)
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
    | SubtaskPaused
)
Message = Report | ReleaseDone | ReleaseFailed | StopRequested

# ---- commands: the effects that a subtask carries out. ``attempt`` is None if the coordinator has heard of none yet:
# then it is meant for the one that this epoch starts.


@dataclass(frozen=True)
class DeploySubtask:
    """Start the subtask; answered by SubtaskRunning, or by SubtaskAtEndOfData if its log has the end."""

    epoch: int
    subtask: str
    attempt: str | None


@dataclass(frozen=True)
class TriggerBarrier:
    """Append barrier (epoch, checkpoint): for a subtask of the plan's trigger list. Barriers reach the subtasks
    behind it through the result partitions."""

    epoch: int
    subtask: str
    attempt: str | None
    checkpoint: int


@dataclass(frozen=True)
class PauseSubtask:
    """Come to stand still between two micro-batches; answer SubtaskPaused. One that is on its way to its end of data
    does not answer: it says that it is there."""

    epoch: int
    subtask: str
    attempt: str | None
    reason: PauseReason = field(metadata=_REASON)


@dataclass(frozen=True)
class ResumeSubtask:
    """The change for which it stands still is in the journal: go on with ``plan``; answer SubtaskRunning."""

    epoch: int
    subtask: str
    attempt: str | None
    plan: VertexPlan


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


Command = DeploySubtask | TriggerBarrier | PauseSubtask | ResumeSubtask | DrainSubtask | FinishSubtask

# ---- effects


@dataclass(frozen=True)
class Append:
    """Append the event to the journal; a decision is durable before the next effect."""

    event: Event


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
    """Stop all queries and leave."""

    status: RunEnd
    cause: str | None = None


Effect = Command | Append | NotifyCompleted | Release | EndJob
