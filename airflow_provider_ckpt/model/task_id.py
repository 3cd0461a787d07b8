"""The sender of a report or the receiver of a command."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId


class TaskId(NamedTuple):
    """One attempt of one subtask in one epoch.

    Commands and reports begin with these fields: ``SubtaskDone(*task_id)``. A task ignores a message for another task
    (R22).
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
