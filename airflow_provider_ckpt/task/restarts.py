"""The next attempts of failed subtasks, in the same process as the running subtasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from airflow_provider_ckpt.concurrency import DaemonThreads
from airflow_provider_ckpt.coordinator.protocol.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.protocol.reports import Report, SubtaskDone, SubtaskOpened
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.task import Task


class TaskFactory(Protocol):
    """The factory for the next attempts of subtasks. Any thread calls it, for several subtasks at a time."""

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        """Open the subtask's log for ``attempt`` and create its task. Return None if the log is closed.

        Raises the errors of opening and creating.
        """

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        """Report that ``attempt`` failed to begin."""


LAST_RESTART = 10.0
"""Maximum seconds that the end of a run waits for restarts in progress. A restart may be the reason for the end."""


class Restarts:
    """The restarts of subtasks, each in its own thread.

    A restart stops the previous attempt, waits for its end, pauses, opens the log (which fences the previous attempt),
    and notifies the JobMaster. The coordinator limits the time until the next attempt begins
    (``coordinator.failover``), because Spark may never end a query.

    Args:
        post: posts a report to the JobMaster's inbox.
    """

    def __init__(self, factory: TaskFactory, post: Callable[[Report], None], new_nonce: Callable[[], str]) -> None:
        self._factory, self._post, self._new_nonce = factory, post, new_nonce
        self._closing = threading.Event()
        self._threads = DaemonThreads()
        self._created: dict[SubtaskId, Task] = {}
        self._unstopped: dict[SubtaskId, tuple[Task, ...]] = {}
        """Subtask → tasks that could not be stopped. The subtask's next restart tries again."""

    def begin(self, command: RestartSubtask, previous: Iterable[Task]) -> None:
        """Begin a restart and return at once. ``previous`` are tasks of earlier attempts that may still run."""
        tasks = (*self._unstopped.pop(command.subtask, ()), *previous)
        self._threads.start(f"ckpt-restart-{command.subtask}", lambda: self._run(command, tasks))

    def created_task(self, subtask: SubtaskId, attempt: AttemptId) -> Task | None:
        """Return the task of ``attempt``; None if no restart created it, or it has nothing to do."""
        task = self._created.get(subtask)
        return task if task is not None and task.attempt == attempt else None

    def close(self) -> list[Task]:
        """Prevent further restarts. Return all created tasks, because the JobMaster may not know all of them."""
        self._closing.set()
        self._threads.join(LAST_RESTART)
        return [*self._created.values()]

    def _run(self, command: RestartSubtask, previous: tuple[Task, ...]) -> None:
        attempt = command.attempt.next(self._new_nonce())
        try:
            self._end(command.subtask, previous)
            if self._closing.wait(command.delay):
                return
            next_task = self._factory.begin(command.subtask, attempt, command.plan)
        except BaseException as error:
            self._factory.failed(command.subtask, attempt, error)
            return
        identity = (command.epoch, command.subtask, attempt)
        if next_task is None:
            self._post(SubtaskOpened(*identity))
            self._post(SubtaskDone(*identity))
            return
        self._created[command.subtask] = next_task
        self._post(SubtaskOpened(*identity))

    def _end(self, subtask: SubtaskId, tasks: tuple[Task, ...]) -> None:
        try:
            for task in tasks:
                task.stop()
                task.close()
        except BaseException:
            self._unstopped[subtask] = tasks
            raise
