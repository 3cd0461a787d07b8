"""A subtask's log as those read it that are in one process with its writers."""

from __future__ import annotations

from collections.abc import Container, Mapping

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog


class CurrentLog:
    """That of the current attempt: ``logs``, by subtask, has another one when the next attempt has opened it. A subtask
    that the graph has got in this run has none before its first attempt has opened it: whatever lies there is of a life
    of the job that counts no more, and is not read."""

    def __init__(self, logs: Mapping[SubtaskId, SubtaskLog], subtask: SubtaskId) -> None:
        self._logs, self._subtask = logs, subtask

    @property
    def path(self) -> str:
        return self._logs[self._subtask].path

    @property
    def position(self) -> int:
        log = self._logs.get(self._subtask)
        return 0 if log is None else log.position

    @property
    def has_ended(self) -> bool:
        log = self._logs.get(self._subtask)
        return log is not None and log.has_ended

    def forget(self, head: int, kept: Container[int]) -> None:
        self._logs[self._subtask].forget(head, kept)

    def records(self, start: int = 0) -> list[Numbered]:
        log = self._logs.get(self._subtask)
        return [] if log is None else log.records(start)
