"""How long a subtask that has finished may have to run again, in batch mode: until the job is over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.group_attempt import is_held_by_group
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.triggers.group_looks import Reading


class KeptResult:
    """Of ``subtasks``, which came to their ends in ``deployment``; 0: that is not there any more. ``attempt``: how the
    journal names the task that waits."""

    def __init__(self, attempt: str, subtasks: Sequence[str], deployment: int) -> None:
        self._attempt, self._subtasks, self._deployment = attempt, frozenset(subtasks), deployment
        self._given_up: int | None = None

    def judge(self, reading: Reading) -> WaitOver | None:
        """None: wait on. While the job is prepared, and of a journal that cannot be read, nothing is known."""
        state = reading.state
        if is_whole(state):
            if state.has_finished:
                return WaitOver(f"the job is {JobStatus.FINISHED}")
            if not is_held_by_group(self._attempt, state):
                return WaitOver(f"{state.attempt} has the job")
            if state.status is not None and not state.status.is_alive and state.status is not JobStatus.RESTARTING:
                return WaitOver(f"the job is {state.status}")
            # one that is older was read before this wait; what they have done there the journal may have yet to tell
            if state.deployment > self._deployment and not self._subtasks <= state.finished:
                again = ", ".join(sorted(self._subtasks - state.finished))
                return WaitOver(f"{again} has to run again, in the deployment of epoch {state.deployment}")
        if self._is_given_up(reading):
            return WaitOver(f"the task that is to run the JobMaster is {reading.coordinate}", is_alone=True)
        return None

    def _is_given_up(self, reading: Reading) -> bool:
        """Two answers of Airflow in a row: a task that was marked a moment ago may be about to stop the job, and a job
        that was STOPPED leaves its subtasks' tasks green."""
        if reading.coordinate not in (*GIVEN_UP, "success"):
            self._given_up = None
        elif self._given_up is None:
            self._given_up = reading.answer
        return self._given_up is not None and reading.answer > self._given_up
