"""How a task of a group waits for what another one is to do: deferred, in the same try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_ckpt.operators.group_task import GroupTaskOperator
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.operators.task_run import TaskRun

_FREE = "that costs no try and holds no worker slot"


class WaitingTaskOperator(GroupTaskOperator):
    """``coordinate``: id of the task that runs the JobMaster. ``deferrable``: False of an Airflow without a triggerer,
    where nobody would ever come back from a wait."""

    def __init__(self, *, coordinate: str, deferrable: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.coordinate = coordinate
        self.defers = deferrable
        self._nobody: Sequence[str] = GIVEN_UP
        """States of ``coordinate`` in which nobody is going to run a JobMaster."""
        self._waits_here = False
        self._since: datetime | None = None
        """From when on ``execution_timeout`` counts; None: since the try has begun."""

    def _begin_try(self) -> None:
        self._nobody, self._waits_here, self._since = GIVEN_UP, not self.defers, None

    def _go_on_after(self, over: WaitOver, since: str | None, *, ran_well: bool) -> None:
        """The try, in another process. ``since``, ``ran_well``: what it was deferred with."""
        self.log.info("The wait is over: %s", over.reason)
        self._waits_here = over.is_blind
        self._nobody = (*GIVEN_UP, "success") if over.is_alone else GIVEN_UP
        self._since = None if since is None else datetime.fromisoformat(since)
        if ran_well:  # what it was given for its work was enough for that; if it runs again, that is new work
            self._since = datetime.now(timezone.utc)

    # ---- what is waited for

    def _await_master(self, context: Context, run: TaskRun, deployment: int) -> NoReturn:
        """A try that began its worker now would be in vain, and a few of them would fail the group (W7)."""
        pointer = run.pointer
        self.log.info(
            "No JobMaster has job %s: deferred until %r runs one again; %s", pointer.job_id, self.coordinate, _FREE
        )
        epoch = pointer.epoch or deployment
        self._defer(context, AwaitedMasterTrigger(**self._common(run), deployment=deployment, epoch=epoch))

    def _await_preparation(self, context: Context, run: TaskRun) -> NoReturn:
        """Whoever waited in his slot might keep it from the very task that is to prepare the job."""
        self.log.info(
            "Job %s is to be prepared again: deferred until %r has done it; %s",
            run.pointer.job_id,
            self.coordinate,
            _FREE,
        )
        trigger = AwaitedMasterTrigger(**self._common(run), deployment=0, epoch=0, attempt=run.options.attempt)
        self._defer(context, trigger)

    def _await_the_end(self, run: TaskRun, subtasks: Sequence[str], deployment: int) -> NoReturn:
        """``subtasks``: which came to their ends in ``deployment``. However long the others take: its work is done, and
        no timeout is for it."""
        self.log.info(
            "%s has finished. Until job %s is over its result may be lost, and have to be produced again: deferred; %s",
            ", ".join(subtasks),
            run.pointer.job_id,
            _FREE,
        )
        trigger = FinishedSubtaskTrigger(
            **self._common(run), attempt=str(run.options.attempt), subtasks=subtasks, deployment=deployment
        )
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"ran_well": True})
        raise AssertionError("defer() raises")

    def _common(self, run: TaskRun) -> Mapping[str, Any]:
        """What all triggers are given."""
        return {
            "job_id": run.pointer.job_id,
            "coordinate": self.coordinate,
            "ckpt_conn_id": self.ckpt_conn_id,
            "root": run.pointer.root,
            "poll_interval": self._poll_interval,
        }

    def _defer(self, context: Context, trigger: AwaitedMasterTrigger) -> NoReturn:
        since = None if self._since is None else self._since.isoformat()
        timeout = self._time_left(context)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"since": since}, timeout=timeout)
        raise AssertionError("defer() raises")

    def _time_left(self, context: Context) -> timedelta | None:
        """Of ``execution_timeout``: Airflow counts it anew in each process of a try."""
        if self.execution_timeout is None:
            return None
        spent = datetime.now(timezone.utc) - (self._since or context["ti"].start_date)
        return max(self.execution_timeout - spent, timedelta(0))
