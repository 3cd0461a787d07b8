"""What stands between the JobMaster and its tasks (Flink: TaskExecutorGateway)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId


class TaskGateway(Protocol):
    """The tasks of one epoch, seen from the JobMaster. It calls from one thread, its loop's.

    Nothing is answered here: what a task has to say is a report (``coordinator.reports``) in the JobMaster's inbox. A
    method raises what ends the JobMaster itself, a fence; what a task fails with is a report, whoever called it.
    """

    def start(self) -> None:
        """Get ready to deploy tasks. Called once, before anything else."""

    def send(self, *commands: Command) -> None:
        """Have tasks carry out commands, in their order; barriers that follow one another may be put at the same time.
        A task that is over, or of another attempt, takes none: dropped in silence."""

    def begun(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """``attempt``, made for a RestartSubtask, has opened the subtask's log (SubtaskOpened): from here on commands
        are for it, and what runs yet of the one before is told to stop."""

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        """Have these subtasks read on in the logs of their producers, of which one has advanced (DataAvailable). One
        that is over does not."""

    def look_around(self) -> None:
        """Called about once a second: let the tasks look at what nobody tells them."""

    def stop(self, *, after_batch: bool) -> None:
        """End every task, and return when nothing of this epoch runs any more. ``after_batch``: what runs may come
        to the end of its micro-batch first, so that it need not be done again. Called once, at last."""
