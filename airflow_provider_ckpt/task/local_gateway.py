"""The tasks of a job in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.commands import (
    Command,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.task.task import InputAdvanced, Task

log = logging.getLogger(__name__)

LAST_BATCH = 5.0
"""Seconds that the running batches get to end by themselves once a job is STOPPED: what they did need not be done
again, and nothing is interrupted."""


class LocalGateway:
    """The local form of the JobMaster's gateway. ``tasks``: by subtask, the unfinished ones. ``on_crash``: told what a
    task has raised; any thread. A command for another epoch or attempt is not carried out (R22)."""

    def __init__(
        self, epoch: int, attempt: str, tasks: Mapping[str, Task], on_crash: Callable[[str, BaseException], None]
    ) -> None:
        self._epoch, self._attempt = epoch, attempt
        self._tasks, self._on_crash = dict(tasks), on_crash

    def start(self) -> None:
        """Nothing: tasks start when they are deployed."""

    def send(self, command: Command) -> None:
        task = self._tasks.get(command.subtask)
        if task is None or not self._is_mine(command):
            return  # it finished meanwhile: its SubtaskDone is in the inbox, and leads to a new plan
        if isinstance(command, FinishSubtask):
            del self._tasks[command.subtask]
        _COMMANDS[type(command)](task, command)

    def _is_mine(self, command: Command) -> bool:
        return command.epoch == self._epoch and command.attempt in (None, self._attempt)

    def hear(self, message: object) -> None:
        assert isinstance(message, InputAdvanced), message
        task = self._tasks.get(message.subtask)
        if task is not None:
            task.pull_inputs()

    def look_around(self) -> None:
        """Read on in the logs, and see to it that every task is well."""
        for subtask, task in list(self._tasks.items()):
            task.pull_inputs()
            try:
                task.check()
            except BaseException as error:  # whatever was raised is the coordinator's to judge
                self._on_crash(subtask, error)

    def stop(self, *, after_batch: bool) -> None:
        if after_batch:
            self._wait_for_batches(time.monotonic() + LAST_BATCH)
        self._stop_all()

    def _stop_all(self) -> None:
        for task in self._tasks.values():
            task.stop()
            task.close()

    def _wait_for_batches(self, until: float) -> None:
        for task in self._tasks.values():
            try:
                task.wait_for_batch(until)
            except CkptError as error:  # the job is STOPPED, and its savepoint released, whatever becomes of it
                log.warning("the last batch of %s is left to the next run: %s", task.subtask, error)


_COMMANDS: dict[type, Callable[[Task, Any], None]] = {
    DeploySubtask: lambda task, command: task.deploy(),
    TriggerBarrier: lambda task, command: task.trigger(command.checkpoint),
    PauseSubtask: lambda task, command: task.pause(command.reason),
    ResumeSubtask: lambda task, command: task.resume(command.plan),
    DrainSubtask: lambda task, command: task.drain(),
    FinishSubtask: lambda task, command: task.finish(),
}
