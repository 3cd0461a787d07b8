"""The job of a task in the same Dag run, as Airflow reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.options.suggestions import did_you_mean

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

JOB_ID_XCOM = "ckpt_job_id"
"""XCom key under which a task publishes the id of its job when it begins, for sensors of the same Dag run."""
UNANSWERED = (AirflowException, AirflowRuntimeError, OSError, EOFError)
"""Errors of a request to Airflow's API server. The caller waits and asks again."""
_NOT_BEGUN = (None, "scheduled", "queued")
_OVER = ("failed", "upstream_failed", "skipped", "removed")


@dataclass(frozen=True)
class FoundJob:
    """The job of a task, the result of :meth:`JobOfTask.find`."""

    job_id: str | None
    """Id of the job. None if the task has not begun in this Dag run, or not since it was cleared."""
    state: str | None
    """Airflow's state of the task instance."""

    @property
    def is_run(self) -> bool:
        """True if Airflow runs the job's task or will run it. Then a sensor need not check the job's driver."""
        return self.state not in (*_OVER, "success")

    @property
    def is_over(self) -> bool:
        """True if the task ended without success and Airflow will not retry it."""
        return self.state in _OVER


@dataclass(frozen=True)
class JobOfTask:
    """Task that runs a job. A trigger must call ``find`` in a thread, because it sends requests to Airflow's API."""

    dag_id: str
    run_id: str
    task_id: str

    def find(self) -> FoundJob:
        """Return the job whose id the task's latest try published, and the task's state.

        Raises InvalidTaskArgumentError for a mapped task, and one of UNANSWERED if the API server does not answer.
        """
        answer = RuntimeTaskInstance.get_task_states(dag_id=self.dag_id, task_ids=[self.task_id], run_ids=[self.run_id])
        states = answer.get(self.run_id, {})
        if states and self.task_id not in states:
            raise InvalidTaskArgumentError(
                argument="job_task_id",
                value=self.task_id,
                problem="the task is mapped; give the job_id of one of its jobs",
            )
        state = None if states.get(self.task_id) is None else str(states[self.task_id])
        if state in _NOT_BEGUN:
            return FoundJob(None, state)  # because the XCom is from before the task was cleared
        job_id = XCom.get_one(key=JOB_ID_XCOM, dag_id=self.dag_id, task_id=self.task_id, run_id=self.run_id)
        return FoundJob(job_id if isinstance(job_id, str) else None, state)


def job_of_task(task: BaseOperator, context: Context, task_id: str) -> JobOfTask:
    """Return another task of the Dag run of ``task``. Raises InvalidTaskArgumentError if the Dag has no such task."""
    if task.has_dag() and not task.dag.has_task(task_id):  # type: ignore[no-untyped-call]
        problem = f"the Dag has no such task.{did_you_mean(task_id, task.dag.task_ids)}".rstrip(".")
        raise InvalidTaskArgumentError(argument="job_task_id", value=task_id, problem=problem)
    ti = context["ti"]
    return JobOfTask(ti.dag_id, ti.run_id, task_id)
