"""The time for which a finished subtask in batch mode may have to run again, until the job is over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.group_attempt import is_held_by_group
from airflow_provider_ckpt.triggers.master_available import WaitResult
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.triggers.group_wait import Reading


class ResultRetention:
    """Wait of a task whose subtasks have finished and may have to run again."""

    def __init__(self, attempt: str, subtasks: Sequence[str], deployment: int) -> None:
        """Begin a wait.

        Args:
            attempt: Name of the waiting task in the journal.
            subtasks: The subtasks.
            deployment: Deployment in which they finished. 0 if it is over.
        """
        self._attempt, self._subtasks, self._deployment = attempt, frozenset(subtasks), deployment
        self._given_up: int | None = None

    def judge(self, reading: Reading) -> WaitResult | None:
        """Return why the wait is over, or None to wait on. A job that is being prepared, or a damaged journal, shows
        nothing."""
        state = reading.state
        if is_whole(state):
            if state.has_finished:
                return WaitResult(f"the job is {JobStatus.FINISHED}")
            if not is_held_by_group(self._attempt, state):
                return WaitResult(f"{state.attempt} has the job")
            if state.status is not None and not state.status.is_alive and state.status is not JobStatus.RESTARTING:
                return WaitResult(f"the job is {state.status}")
            # An older state was read before this wait. The journal may still lack the ends of the subtasks in theirs.
            if state.deployment > self._deployment and not self._subtasks <= state.finished:
                again = ", ".join(sorted(self._subtasks - state.finished))
                return WaitResult(f"{again} has to run again, in the deployment of epoch {state.deployment}")
        if self._is_given_up(reading):
            return WaitResult(f"the task that runs the JobMaster is {reading.coordinate}", is_alone=True)
        return None

    def _is_given_up(self, reading: Reading) -> bool:
        """Return whether two answers of Airflow in a row say that the JobMaster's task has ended.

        One is not enough. A task that a user marked a moment ago may be about to stop the job, and the tasks of a
        STOPPED job succeed.
        """
        if reading.coordinate not in (*GIVEN_UP, "success"):
            self._given_up = None
        elif self._given_up is None:
            self._given_up = reading.answer
        return self._given_up is not None and reading.answer > self._given_up
