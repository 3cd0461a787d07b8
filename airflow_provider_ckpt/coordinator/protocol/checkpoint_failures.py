"""The reasons for which a checkpoint is skipped or aborted, and the count of failures."""

from __future__ import annotations

from enum import Enum
from typing import Literal


class CheckpointFailureReason(Enum):
    """A reason for which no checkpoint is triggered, or a checkpoint is aborted. Names and meaning are Flink's.

    For the first three reasons no checkpoint is triggered, and a waiting stop reports the reason. For the other reasons
    a triggered checkpoint is aborted. ``counted`` is True if the abort counts as a failure, as in Flink.
    """

    NOT_ALL_REQUIRED_TASKS_RUNNING = ("not all subtasks that must acknowledge are running", False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("another checkpoint is pending", False)
    PLANNED_RESTART = ("a subtask is paused for a change of its plan", False)

    IO_EXCEPTION = ("the barrier could not be written", True)
    CHECKPOINT_EXPIRED = ("not every subtask acknowledged within the checkpoint timeout", True)
    FINALIZE_CHECKPOINT_FAILURE = ("the acknowledged checkpoint could not be completed", True)

    ALL_TASKS_FINISHED = ("every subtask finished before its barrier", False)
    JOB_FAILOVER_REGION = ("a subtask restarts with its next attempt", False)
    JOB_FAILURE = ("a subtask failed", False)
    JOB_STOPPED = ("the job was ended", False)

    def __init__(self, message: str, counted: bool) -> None:
        self.message = message
        self.counted = counted


DeclineReason = Literal["IO_EXCEPTION"]
"""The reason for which a subtask declines a barrier: the storage did not accept it."""
IO_EXCEPTION: DeclineReason = "IO_EXCEPTION"


class FailureTracker:
    """The count of failed checkpoints in a row. A completed checkpoint clears the failures of lower numbers."""

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._counted: set[int] = set()

    @property
    def in_a_row(self) -> int:
        return len(self._counted)

    @property
    def exceeded(self) -> bool:
        return len(self._counted) > self._tolerable

    def failed(self, checkpoint: int, reason: CheckpointFailureReason) -> None:
        if reason.counted:
            self._counted.add(checkpoint)

    def completed(self, checkpoint: int) -> None:
        self._counted = {failed for failed in self._counted if failed > checkpoint}
