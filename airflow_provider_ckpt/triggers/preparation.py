"""The check whether a job is prepared again, for a subtask whose run has failed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.group_attempt import is_held_by_group
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.remote.outbox import Outbox


class Preparation:
    """Wait for a deployment of the group and Dag run to which ``attempt`` belongs. ``attempt`` names one of its
    tasks."""

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt

    def judge(self, state: JobState, outbox: Outbox | None, coordinate: str | None) -> WaitOver | None:
        """Return why the wait is over, or None to wait on. See :meth:`Comeback.judge`.

        If the JobMaster's task has succeeded, it will not prepare the job again.
        """
        if state.deployment:
            return WaitOver(f"the job is prepared, in the deployment of epoch {state.deployment}")
        if not is_held_by_group(self._attempt, state):
            return WaitOver(f"{state.attempt} has the job")
        if state.status is not None and not state.status.is_alive and state.status is not JobStatus.RESTARTING:
            return WaitOver(f"the job is {state.status}")
        if coordinate in (*GIVEN_UP, "success"):
            return WaitOver(f"the task that prepares the job is {coordinate}", is_alone=True)
        return None
