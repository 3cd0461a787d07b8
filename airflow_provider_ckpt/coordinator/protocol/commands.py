"""The commands that the JobMaster sends to subtasks.

A command names its epoch, subtask and attempt, and is dropped if they are not current (R22). Its JSON form is in
``coordinator.protocol.wire``. Its first fields are the task's id: ``FinishSubtask(*task_id)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import REASON, PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


@dataclass(frozen=True)
class DeploySubtask:
    """Command to start the subtask with ``plan``. The answer is SubtaskRunning or SubtaskAtEndOfData."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: VertexPlan


@dataclass(frozen=True)
class TriggerBarrier:
    """Command to append the barrier (epoch, checkpoint) to the subtask's log, where consumers read it."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    checkpoint: int


@dataclass(frozen=True)
class PauseSubtask:
    """Command to pause between two micro-batches. The answer is SubtaskPaused or SubtaskAtEndOfData."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    reason: PauseReason = field(metadata=REASON)


@dataclass(frozen=True)
class PrepareReconfiguration:
    """Command to build and try the query of ``plan`` while the current query runs. The trial has no visible effect.

    The answer is ReconfigurationPrepared or ReconfigurationUnfit, with the same ``trial``. The name of a trial is
    unique across all JobMasters and has no hyphen. The change takes effect after a pause and a resume.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    plan: VertexPlan


@dataclass(frozen=True)
class ResumeSubtask:
    """Command to resume with ``plan``, whose changes are in the journal. The answer is SubtaskRunning."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: VertexPlan


@dataclass(frozen=True)
class DrainSubtask:
    """Command to end the unbounded sources of the subtask, after all existing rows or immediately (``at_once``)."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    at_once: bool = False


@dataclass(frozen=True)
class FinishSubtask:
    """Command to close the subtask after the release of its final checkpoint. The answer is SubtaskDone."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class AssignSplits:
    """Command to read more splits, in this order. The answers are SplitsCompleted or SplitsReturned.

    ``is_last`` is True if the subtask must end when it has read all assigned splits.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    is_last: bool


@dataclass(frozen=True)
class RestartSubtask:
    """Command to the process that creates tasks: stop ``attempt`` and begin the next attempt ``delay`` seconds later.

    The next attempt runs ``plan``, and answers with SubtaskOpened or SubtaskFailed.
    """

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
