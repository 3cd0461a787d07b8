"""The interface from a JobMaster to its tasks (Flink: TaskExecutorGateway), and the JobMaster's queue of messages."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.messages import Message
from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId


class TaskGateway(Protocol):
    """The tasks of one epoch. The JobMaster calls the gateway only from the thread of its loop.

    No method returns an answer. A task answers with a report (``coordinator.protocol.reports``) in the JobMaster's
    inbox, and also reports its failure. A method raises only OvertakenError, which ends the JobMaster.
    """

    def start(self) -> None:
        """Prepare to deploy tasks. The JobMaster calls this before any other method."""

    def send(self, *commands: Command) -> None:
        """Pass commands to tasks, in order, except to attempts that are over.

        Consecutive barriers may be sent at the same time.
        """

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """Direct commands to ``attempt``, which has opened the subtask's log (SubtaskOpened). Stop the previous
        attempt.
        """

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        """Let ``consumers`` read new entries in their producers' logs (DataAvailable), unless they have finished."""

    def poll_changes(self) -> None:
        """Let the tasks check logs and files for changes that no message reports.

        The JobMaster calls this every second.
        """

    def stop(self, *, after_batch: bool) -> None:
        """End every task, and return when nothing of this epoch runs any longer. This is the last call.

        If ``after_batch`` is True, running micro-batches end first, so that they need not run again.
        """


Received = Message | TaskReport
Inbox = queue.Queue[Received]
"""The queue of messages to the JobMaster. Any thread adds messages, and the JobMaster's loop removes them."""
