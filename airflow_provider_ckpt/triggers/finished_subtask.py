"""The wait of a task whose subtasks have finished in batch mode, without a worker slot and without spending a try.

Airflow does not repeat a successful task, so the task must not succeed while its result may be needed again. All
waiting tasks of a group share the polls of its job, because hundreds may wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.base import SETTLING
from airflow_provider_ckpt.triggers.group_attempt import is_held_by_group
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY, GIVEN_UP
from airflow_provider_ckpt.triggers.group_wait import GroupWaitTrigger, WaitResult
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

_SHARED: WeakValueDictionary[tuple[str | None, ...], GroupPolls] = WeakValueDictionary()
"""Key of a group's job -> its shared polls, as long as a trigger in this process uses them."""


class FinishedSubtaskTrigger(GroupWaitTrigger):
    """Trigger that waits until the results of its subtasks are obsolete or lost. See :class:`ResultRetention`."""

    names = (*GroupWaitTrigger.names, "attempt", "subtasks", "deployment")
    _clock = staticmethod(time.monotonic)

    def __init__(self, *, attempt: str, subtasks: Sequence[str], deployment: int, **common: Any) -> None:
        super().__init__(**common)
        self.attempt = attempt
        self.subtasks = [str(subtask) for subtask in subtasks]
        self.deployment = deployment
        self._retention = ResultRetention(attempt, subtasks, deployment)
        self._polls: GroupPolls | None = None

    async def _poll(self) -> WaitResult | None:
        self._polls = self._polls or await self._group_polls()
        reading = await self._polls.reading(shared_age(self.poll_interval))
        if not is_whole(reading.state):
            problem = "; ".join(reading.state.damage) or "it is not there"
            self._log_once(f"The journal of job {self.job_id} cannot be read now: {problem}")
        return self._retention.judge(reading)

    async def _group_polls(self) -> GroupPolls:
        hook, ti = await self._hook(), self.task_instance
        run = (None, None) if ti is None else (ti.dag_id, ti.run_id)
        key = (self.ckpt_conn_id, self.root, self.job_id, self.coordinate, *run)
        polls = _SHARED.get(key)
        if polls is None:
            client = await in_thread(lambda: hook.client(self.job_id), root=self.root)
            polls = _SHARED.setdefault(
                key, GroupPolls(client.read_state, self._state_reader(), root=self.root, clock=self._clock)
            )
        return polls


def shared_age(poll_interval: float) -> float:
    """Return the largest age, in seconds, at which a trigger may use the result of another trigger's poll.

    The age is below the poll interval, so that two polls of a trigger never use the same result. It is below SETTLING,
    so that no result is from before the wait, because a trigger first polls SETTLING seconds after the wait began.
    """
    return min(poll_interval, SETTLING) / 2


@dataclass(frozen=True)
class Reading:
    """Result of one poll.

    Args:
        state: The job in its journal. It must not be changed.
        coordinate: Airflow's last known state of the JobMaster's task, None before the first answer. It is older than
            ``state``, so that a job that ends in between counts as ended and not as a job without a JobMaster.
        answer: How often Airflow has answered about that task.
    """

    state: JobState
    coordinate: str | None = None
    answer: int = 0


class GroupPolls:
    """Polls of one job that several triggers in one event loop share.

    Args:
        read_job: Returns the job's state from the journal. Blocks. Only one thread at a time calls it.
        coordinate: Returns Airflow's state of the JobMaster's task, None if unknown. Called like ``read_job``.
    """

    def __init__(
        self,
        read_job: Callable[[], JobState],
        coordinate: Callable[[], str | None],
        *,
        root: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_job, self._coordinate, self._root, self._clock = read_job, coordinate, root, clock
        self._reading: asyncio.Future[Reading] | None = None
        self._begun_at = 0.0
        self._asked_at: float | None = None
        self._answer: str | None = None
        self._answers = 0

    async def reading(self, age: float) -> Reading:
        """Return the last reading if it began less than ``age`` seconds ago or is in progress, else a new reading.

        Raises the error of the poll.
        """
        if self._reading is None or (self._reading.done() and self._clock() - self._begun_at >= age):
            self._begun_at = self._clock()
            self._reading = asyncio.ensure_future(in_thread(self._read, root=self._root))
            self._reading.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._reading)  # the end of one trigger must not end the poll for others

    def _read(self) -> Reading:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY:
            self._asked_at, answer = now, self._coordinate()
            if answer is not None:
                self._answer, self._answers = answer, self._answers + 1
        return Reading(self._read_job(), self._answer, self._answers)


def _retrieve_error(poll: asyncio.Future[Reading]) -> None:
    """Retrieve the error of a poll whose trigger may be gone, because asyncio would log it otherwise."""
    if not poll.cancelled():
        poll.exception()


class ResultRetention:
    """End condition of a wait of a task whose subtasks have finished and may have to run again."""

    def __init__(self, attempt: str, subtasks: Sequence[str], deployment: int) -> None:
        """Create a wait.

        Args:
            attempt: The task that waits.
            deployment: Epoch of the deployment in which its subtasks finished; 0 if that deployment is over.
        """
        self._attempt, self._subtasks, self._deployment = attempt, frozenset(subtasks), deployment
        self._gone_at_answer: int | None = None

    def judge(self, reading: Reading) -> WaitResult | None:
        """Return why the wait is over, or None to continue. A job in preparation or a damaged journal is no reason."""
        state = reading.state
        if is_whole(state):
            if state.has_finished:
                return WaitResult(f"the job is {JobStatus.FINISHED}")
            if not is_held_by_group(self._attempt, state):
                return WaitResult(f"{state.attempt} has the job")
            if state.status is not None and not state.status.is_alive and state.status is not JobStatus.RESTARTING:
                return WaitResult(f"the job is {state.status}")
            # A state without a later deployment may be from before the subtasks' ends were journaled.
            if state.deployment > self._deployment and not self._subtasks <= state.finished:
                again = ", ".join(sorted(self._subtasks - state.finished))
                return WaitResult(f"{again} has to run again, in the deployment of epoch {state.deployment}")
        if self._has_master_gone(reading):
            return WaitResult(f"the task that runs the JobMaster is {reading.coordinate}", is_alone=True)
        return None

    def _has_master_gone(self, reading: Reading) -> bool:
        """Return True if two answers of Airflow in a row show that the JobMaster's task has ended.

        One answer does not suffice, because a task that a user marked may still stop the job, and the tasks of a
        STOPPED job succeed.
        """
        if reading.coordinate not in (*GIVEN_UP, "success"):
            self._gone_at_answer = None
        elif self._gone_at_answer is None:
            self._gone_at_answer = reading.answer
        return self._gone_at_answer is not None and reading.answer > self._gone_at_answer
