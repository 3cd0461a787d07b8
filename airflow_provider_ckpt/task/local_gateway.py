"""The gateway to the tasks that run in this process."""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from airflow_provider_ckpt.concurrency import TaskThreads
from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    Command,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task

log = logging.getLogger(__name__)

LAST_BATCH = 5.0
"""Seconds that running batches have to end when a job is STOPPED. A batch that ends need not be repeated."""


class LocalGateway:
    """The JobMaster's gateway to tasks in its own process.

    A command for another epoch, or for another attempt of its subtask, is ignored (R22). Barriers are appended in
    parallel, because each costs a sync of the disk or a request, and the checkpoint waits for all of them.

    Args:
        tasks: unfinished subtask → its task.
        on_crash: called with a failed task and its error, from any thread.
        restarts: creates the next attempts of failed tasks.
    """

    def __init__(
        self,
        epoch: int,
        tasks: Mapping[SubtaskId, Task],
        on_crash: Callable[[Task, BaseException], None],
        restarts: Restarts,
    ) -> None:
        self._epoch, self._restarts = epoch, restarts
        self._tasks, self._on_crash = dict(tasks), on_crash
        self._replaced: list[Task] = []
        self._side_by_side = TaskThreads("ckpt-barriers")
        self._crashed: list[Task] = []
        """Tasks whose failure this gateway has reported. A failure is reported once, even if the run takes long to
        end."""

    def start(self) -> None:
        """Do nothing, because tasks start when they are deployed."""

    def send(self, *commands: Command) -> None:
        for are_barriers, group in itertools.groupby(commands, lambda command: isinstance(command, TriggerBarrier)):
            sends = [functools.partial(self._send, command) for command in group]
            if are_barriers:
                self._side_by_side.run(sends)
            else:
                for send in sends:
                    send()

    def _send(self, command: Command) -> None:
        if isinstance(command, RestartSubtask):
            self._restart(command)
            return
        task = self._tasks.get(command.subtask)
        if task is None or not self._is_addressed_to(task, command):
            return  # the task finished meanwhile, and its SubtaskDone in the inbox leads to a new plan
        self._guard(task, lambda: self._carry_out(task, command))

    def _restart(self, command: RestartSubtask) -> None:
        """Begin the next attempt of a subtask. The subtask has no task if an earlier attempt failed to begin."""
        previous = self._tasks.get(command.subtask)
        if command.epoch != self._epoch or (previous is not None and previous.attempt != command.attempt):
            return
        self._tasks.pop(command.subtask, None)
        self._crashed = [task for task in self._crashed if task is not previous]
        self._restarts.begin(command, () if previous is None else (previous,))

    def _carry_out(self, task: Task, command: Command) -> None:
        _pass_command(task, command)
        if isinstance(command, FinishSubtask):
            del self._tasks[command.subtask]

    def _guard(self, task: Task, work: Callable[[], None]) -> None:
        """Run ``work`` of a task, and report its error to the coordinator.

        The task's LogFencedError is ignored if a later attempt of this epoch has fenced the task, and so replaces it.

        Raises OvertakenError if a later driver owns the job.
        """
        if any(crashed_task is task for crashed_task in self._crashed):
            return
        try:
            work()
        except LogFencedError as error:
            if error.data["attempt"].epoch != self._epoch:
                raise
        except OvertakenError:
            raise
        except Exception as error:
            self._crash(task, error)

    def _crash(self, task: Task, error: BaseException) -> None:
        self._crashed.append(task)
        self._on_crash(task, error)

    def _is_addressed_to(self, task: Task, command: Command) -> bool:
        return command.epoch == self._epoch and command.attempt == task.attempt

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """Replace the subtask's task by the task of its next attempt, and stop the previous task.

        The gateway waits for the previous task only at the end of the run, because the task may hang and is fenced.
        """
        task = self._restarts.created_task(subtask, attempt)
        if task is None:
            return
        previous = self._tasks.get(subtask)
        self._tasks[subtask] = task
        if previous is not None:
            self._replaced.append(previous)
            previous.stop()

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        self._pull_inputs([self._tasks[subtask] for subtask in dict.fromkeys(consumers) if subtask in self._tasks])

    def _pull_inputs(self, tasks: Iterable[Task]) -> None:
        self._side_by_side.run([functools.partial(self._guard, task, task.pull_inputs) for task in tasks])

    def poll_changes(self) -> None:
        """Read new entries of the logs, and check every task for an error."""
        tasks = list(self._tasks.values())
        self._pull_inputs(tasks)
        for task in tasks:
            self._guard(task, functools.partial(self._check, task))

    def _check(self, task: Task) -> None:
        try:
            task.check()
        except BaseException as error:  # a user's function in Spark's thread may raise any BaseException
            self._crash(task, error)

    def stop(self, *, after_batch: bool) -> None:
        if after_batch:
            self._wait_for_batches(time.monotonic() + LAST_BATCH)
        self._stop_all()

    def _stop_all(self) -> None:
        created = self._restarts.close()
        try:
            for task in dict.fromkeys((*self._replaced, *self._tasks.values(), *created)):
                task.stop()
                task.close()
        finally:
            self._side_by_side.close()

    def _wait_for_batches(self, until: float) -> None:
        for task in self._tasks.values():
            try:
                task.wait_for_batch(until)
            except CkptError as error:  # the job is STOPPED and its savepoint released in any case
                log.warning("the last batch of %s is left to the next run: %s", task.subtask, error)


def _pass_command(task: Task, command: Command) -> None:
    match command:
        case DeploySubtask():
            task.deploy(command.plan)
        case TriggerBarrier():
            task.trigger(command.checkpoint)
        case PauseSubtask():
            task.pause(command.reason)
        case PrepareReconfiguration():
            task.prepare(command.trial, command.plan)
        case ResumeSubtask():
            task.resume(command.plan)
        case DrainSubtask():
            task.drain(at_once=command.at_once)
        case AssignSplits():
            task.assign(command.splits, is_last=command.is_last)
        case FinishSubtask():
            task.finish()
        case _:
            raise AssertionError(f"{command}: a task knows no such command")
