"""The tasks of a job in this process: one runner for each subtask, in the driver of one Spark application."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.messages import (
    Command,
    DrainSubtask,
    DropSource,
    FinishSubtask,
    ResumeWithout,
    TriggerBarrier,
)
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.task.context import InputAdvanced, RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.progress import ProgressListener, Runner
from airflow_provider_ckpt.spark.task.silence import silenced

log = logging.getLogger(__name__)

LAST_BATCH = 5.0
"""Seconds that the running batches get to end by themselves once a job is STOPPED: what they did need not be done
again, and nothing is interrupted."""


class LocalGateway:
    """The local form of :class:`TaskGateway`. ``runners``: subtask -> runner, of the unfinished subtasks. A command
    for another epoch or attempt is not carried out (R22)."""

    def __init__(self, context: RunContext, runners: Mapping[str, Runner]) -> None:
        self._context, self._runners = context, dict(runners)
        self._listener = ProgressListener(self._runners)

    def start(self) -> None:
        self._context.spark.streams.addListener(self._listener)
        for runner in self._runners.values():
            runner.start()

    def send(self, command: Command) -> None:
        runner = self._runners.get(command.subtask)
        if runner is None or not self._is_mine(command):
            return  # it finished meanwhile: its SubtaskDone is in the inbox, and leads to a new plan
        if isinstance(command, FinishSubtask):
            del self._runners[command.subtask]
        _COMMANDS[type(command)](runner, command)

    def _is_mine(self, command: Command) -> bool:
        return command.epoch == self._context.epoch and command.attempt in (None, self._context.attempt)

    def hear(self, message: object) -> None:
        assert isinstance(message, InputAdvanced), message
        runner = self._runners.get(message.subtask)
        if runner is not None:
            runner.pull_inputs()

    def look_around(self) -> None:
        """Read on in the logs, and see to it that every query is well."""
        for subtask, runner in list(self._runners.items()):
            runner.pull_inputs()
            try:
                runner.check()
            except BaseException as error:  # whatever Spark raised is the coordinator's to judge
                report_crash(self._context, subtask, error)

    def stop(self, *, after_batch: bool) -> None:
        if after_batch:
            self._wait_for_batches(time.monotonic() + LAST_BATCH)
        if self._runners:
            with silenced(self._context.spark):
                for runner in self._runners.values():
                    runner.stop()
                    runner.close()
        self._context.spark.streams.removeListener(self._listener)

    def _wait_for_batches(self, until: float) -> None:
        for runner in self._runners.values():
            try:
                runner.wait_for_batch(until)
            except CkptError as error:  # the job is STOPPED, and its savepoint released, whatever becomes of it
                log.warning("the last batch of %s is left to the next run: %s", runner.subtask, error)


_COMMANDS: dict[type, Callable[[Runner, Any], None]] = {
    TriggerBarrier: lambda runner, command: runner.trigger(command.checkpoint),
    DropSource: lambda runner, command: runner.drop(command.uid),
    ResumeWithout: lambda runner, command: runner.resume(command.uid),
    DrainSubtask: lambda runner, command: runner.drain(),
    FinishSubtask: lambda runner, command: runner.finish(),
}
