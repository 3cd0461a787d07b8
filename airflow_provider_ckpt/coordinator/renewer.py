"""The restart of paused subtasks whose read logs have grown. :mod:`~.renewing` explains why."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.subtask_table import SubtaskStatus


class Renewer:
    def __init__(self, parts: Parts, failover: Failover) -> None:
        self._parts, self._failover = parts, failover

    def advance(self, now: float) -> None:
        """Begin the next attempt of each subtask that has paused for it.

        It has not failed, so no restart is counted.
        """
        parts = self._parts
        for subtask in parts.renewing.take():
            parts.subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
            parts.send(RestartSubtask(*parts.task_id(subtask), 0.0, parts.pauses.plan(subtask)))
            self._failover.awaits(subtask, now)
