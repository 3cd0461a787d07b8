"""The effects that a subtask carries out.

A command names its world (epoch, subtask, attempt) or is dropped (R22), and has a JSON form (``coordinator.wire``).
It begins with the id of the task: ``SubtaskDone(*task_id)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.pause_reason import REASON, PauseReason
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


@dataclass(frozen=True)
class DeploySubtask:
    """Start the subtask with ``plan``; answered by SubtaskRunning, or by SubtaskAtEndOfData if its log has the end."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: VertexPlan


@dataclass(frozen=True)
class TriggerBarrier:
    """Append barrier (epoch, checkpoint): for a subtask of the plan's trigger list. Barriers reach the subtasks
    behind it through the result partitions."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    checkpoint: int


@dataclass(frozen=True)
class PauseSubtask:
    """Come to stand still between two micro-batches; answer SubtaskPaused. One that is on its way to its end of data
    does not answer: it says that it is there."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    reason: PauseReason = field(metadata=REASON)


@dataclass(frozen=True)
class PrepareReconfiguration:
    """Make and try the query of ``plan``, while the one of now runs: nothing of it may be seen. Answer
    ReconfigurationPrepared or ReconfigurationUnfit, with the name of this ``trial``, which is no other one's of any
    JobMaster, and has no hyphen. Whether it comes to that is said by a pause, and a resume."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    plan: VertexPlan


@dataclass(frozen=True)
class ResumeSubtask:
    """The change for which it stands still is in the journal: go on with ``plan``; answer SubtaskRunning."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: VertexPlan


@dataclass(frozen=True)
class DrainSubtask:
    """Read what is there of the unbounded sources of this subtask, and end them; it goes to end of data (mode drain).
    ``at_once``: they end where they stand."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    at_once: bool = False


@dataclass(frozen=True)
class FinishSubtask:
    """The subtask may close (final checkpoint released if it has sinks); answer SubtaskDone."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class AssignSplits:
    """Read these splits, too, in this order. Answered by SplitsCompleted, for one or several. ``is_last``:
    no more will come: at the end of data when all that was assigned is done."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    is_last: bool


@dataclass(frozen=True)
class RestartSubtask:
    """``attempt`` has failed: stop what is left of it, and begin its next one ``delay`` seconds later. ``plan``: what
    the subtask was to run. Answered by SubtaskOpened, or by SubtaskFailed, of the next attempt. For whoever makes
    tasks."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    delay: float
    plan: VertexPlan


Command = (
    DeploySubtask
    | TriggerBarrier
    | PauseSubtask
    | PrepareReconfiguration
    | ResumeSubtask
    | DrainSubtask
    | FinishSubtask
    | AssignSplits
    | RestartSubtask
)
