"""Has the next attempts begin of subtasks that stand still for it. What for: :mod:`~.renewing`."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.subtask_table import SubtaskStatus


class Renewer:
    def __init__(self, parts: Parts, failover: Failover) -> None:
        self._parts, self._failover = parts, failover

    def advance(self, now: float) -> None:
        """As soon as a subtask has said that it stands still. It has not failed: no restart is counted."""
        parts = self._parts
        for subtask in parts.renewing.take():
            parts.subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
            parts.send(RestartSubtask(*parts.task_id(subtask), 0.0, parts.pauses.plan(subtask)))
            self._failover.awaits(subtask, now)
