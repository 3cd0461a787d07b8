"""A subtask's log as those read it that are in one process with its writers."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog


class CurrentLog:
    """That of the current attempt: ``logs``, by subtask, has another one when the next attempt has opened it."""

    def __init__(self, logs: Mapping[SubtaskId, SubtaskLog], subtask: SubtaskId) -> None:
        self._logs, self._subtask = logs, subtask

    @property
    def path(self) -> str:
        return self._logs[self._subtask].path

    @property
    def position(self) -> int:
        return self._logs[self._subtask].position

    @property
    def has_ended(self) -> bool:
        return self._logs[self._subtask].has_ended

    def forget(self, head: int) -> None:
        self._logs[self._subtask].forget(head)

    def records(self, start: int = 0) -> list[Numbered]:
        return self._logs[self._subtask].records(start)
