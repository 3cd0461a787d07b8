"""The log of a subtask for readers in the same process as its writers."""

from __future__ import annotations

from collections.abc import Container, Mapping

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog


class CurrentLog:
    """The log of a subtask's current attempt.

    A subtask that a rescale has added has no log until its first attempt opens it. An older log in its folder belongs
    to an earlier life of the job and is not read.

    Args:
        logs: Subtask → the log of its current attempt. Each new attempt replaces it.
        subtask: The subtask.
    """

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
