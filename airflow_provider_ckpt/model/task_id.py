"""Which task says something, or is told it."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId


class TaskId(NamedTuple):
    """One attempt of one subtask in one epoch. Commands and reports begin with these fields, ``SubtaskDone(*task_id)``,
    and whoever is of another task drops them (R22)."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
