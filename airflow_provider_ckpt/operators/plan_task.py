"""The first task of a group, which prepares the job for a JobMaster and workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.group_run import GroupStatus
from airflow_provider_ckpt.operators.group_task import GroupTaskOperator
from airflow_provider_ckpt.operators.task_start import failed_job_error, is_held_since

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.operators.task_run import TaskRun


class PlanTaskOperator(GroupTaskOperator):
    """Task with a short Spark driver that prepares the job's deployment.

    Returns (XCom) the names of the job's subtasks in a stable order, without subtasks that a rescale added to another
    subtask's worker. If the Dag run's deployment is running, the task does nothing, because a new preparation would
    take over the job.
    """

    part = "plan"

    def execute(self, context: Context) -> Any:
        with airflow_failures():
            run = self._start(context)
            state = self._read_state(run)
            if self._needs_no_plan(run, state):
                return _names(state)
            self._submit(context, self._adjusted(run, state), "--plan", application="plan")
            state = self._read_state(run)
            if self._group_run.status_for(state) not in (GroupStatus.RUNS, GroupStatus.DONE):
                raise self._not_prepared_error(state)
            return _names(state)

    def _needs_no_plan(self, run: TaskRun, state: JobState) -> bool:
        """Return True if the job needs no preparation.

        Raises AirflowFailException if a retry finds that the job FAILED, or that another Dag run or driver has the job.
        """
        status = self._group_run.status_for(state)
        if status is GroupStatus.FAILED and not self._is_cleared(state):
            raise failed_job_error(state, "group")
        if status is GroupStatus.TAKEN and self._before is not None and is_held_since(state, self._before):
            raise self._taken_over_error(run, state)
        is_stopped = status is GroupStatus.STOPPED and not self._is_cleared(state)
        is_done = status is GroupStatus.DONE and self._group_run.owns(state)
        if not (status is GroupStatus.RUNS or is_stopped or is_done):
            return False
        self.log.info("Job %s (%s): %s, so nothing is prepared", state.job_id, state.status, status.value)
        return True

    def _is_cleared(self, state: JobState) -> bool:
        """Return True if the task was cleared, or if its Dag run was deleted and created again after the job ran."""
        return self._was_cleared or (self._is_first and self._group_run.owns(state))

    def _adjusted(self, run: TaskRun, state: JobState) -> TaskRun:
        options = run.options
        if self._is_cleared(state):
            options = replace(options, resume_failed=state.status is JobStatus.FAILED)
        elif self._group_run.owns(state):  # the earlier try has carried out the restore
            options = replace(options, restore="latest")
        self._ckpt_run = replace(run, options=options)
        return self._ckpt_run


def _names(state: JobState) -> list[str]:
    return [str(subtask) for subtask in state.assignable()]
