"""The deferred wait of a group's task for a JobMaster or for the end of the job, within the same try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_ckpt.operators.group_task import GroupTaskOperator
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger
from airflow_provider_ckpt.triggers.group_task_states import GIVEN_UP
from airflow_provider_ckpt.triggers.group_wait import WaitResult

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.operators.task_run import TaskRun

_FREE = "that costs no try and holds no worker slot"


class WaitingTaskOperator(GroupTaskOperator):
    """Task of a group that can wait for a JobMaster or for the end of the job.

    Args:
        coordinate: Id of the task that runs the JobMaster.
        deferrable: False for an Airflow without a triggerer, where a deferred task would never resume.
    """

    def __init__(self, *, coordinate: str, deferrable: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.coordinate = coordinate
        self.is_deferrable = deferrable
        self._final_states: Sequence[str] = GIVEN_UP
        """States of ``coordinate`` in which no JobMaster will start."""
        self._holds_slot = False
        self._timeout_start: datetime | None = None
        """Start of ``execution_timeout``. None means the start of the try."""

    def _reset_wait(self) -> None:
        self._final_states, self._holds_slot, self._timeout_start = GIVEN_UP, not self.is_deferrable, None

    def _resume_after(self, result: WaitResult, since: str | None, *, ran_well: bool) -> None:
        """Record the result of a wait, before the try continues in another process.

        ``since`` is the start of ``execution_timeout`` as text, None for the start of the try. ``ran_well`` is True if
        the worker had ended well before the wait.
        """
        self.log.info("The wait is over: %s", result.reason)
        self._holds_slot = result.is_blind
        self._final_states = (*GIVEN_UP, "success") if result.is_alone else GIVEN_UP
        self._timeout_start = None if since is None else datetime.fromisoformat(since)
        if ran_well:  # the work was done within its timeout, and another run is new work
            self._timeout_start = datetime.now(timezone.utc)

    # ---- the waits

    def _await_master(self, context: Context, run: TaskRun, deployment: int) -> NoReturn:
        """Defer the task until a JobMaster has the job. Without the wait all tries would fail soon (W7)."""
        pointer = run.pointer
        self.log.info(
            "No JobMaster has job %s: deferred until %r runs one again; %s", pointer.job_id, self.coordinate, _FREE
        )
        epoch = pointer.epoch or deployment
        self._defer(context, AwaitedMasterTrigger(**self._trigger_arguments(run), deployment=deployment, epoch=epoch))

    def _await_preparation(self, context: Context, run: TaskRun) -> NoReturn:
        """Defer the task until the job is prepared again. A wait in the worker slot could block the preparing task."""
        self.log.info(
            "Job %s must be prepared again: deferred until %r has done it; %s",
            run.pointer.job_id,
            self.coordinate,
            _FREE,
        )
        trigger = AwaitedMasterTrigger(
            **self._trigger_arguments(run), deployment=0, epoch=0, attempt=run.options.attempt
        )
        self._defer(context, trigger)

    def _await_the_end(self, run: TaskRun, subtasks: Sequence[str], deployment: int) -> NoReturn:
        """Defer the task, without a timeout, until the job is over or needs the results of ``subtasks`` again.

        ``deployment`` is the epoch of the deployment in which the subtasks finished.
        """
        self.log.info(
            "%s has finished. Until job %s is over, its result may be lost and needed again: deferred; %s",
            ", ".join(subtasks),
            run.pointer.job_id,
            _FREE,
        )
        trigger = FinishedSubtaskTrigger(
            **self._trigger_arguments(run), attempt=str(run.options.attempt), subtasks=subtasks, deployment=deployment
        )
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"ran_well": True})
        raise AssertionError("defer() raises")

    def _trigger_arguments(self, run: TaskRun) -> Mapping[str, Any]:
        return {
            "job_id": run.pointer.job_id,
            "coordinate": self.coordinate,
            "ckpt_conn_id": self.ckpt_conn_id,
            "root": run.pointer.root,
            "poll_interval": self._poll_interval,
        }

    def _defer(self, context: Context, trigger: AwaitedMasterTrigger) -> NoReturn:
        since = None if self._timeout_start is None else self._timeout_start.isoformat()
        timeout = self._time_left(context)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"since": since}, timeout=timeout)
        raise AssertionError("defer() raises")

    def _time_left(self, context: Context) -> timedelta | None:
        """Return the rest of ``execution_timeout`` for the try. None without a timeout.

        Airflow alone would begin to count again in each process of the try.
        """
        if self.execution_timeout is None:
            return None
        elapsed = datetime.now(timezone.utc) - (self._timeout_start or context["ti"].start_date)
        return max(self.execution_timeout - elapsed, timedelta(0))
