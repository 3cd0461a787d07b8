"""A task of a group that runs one subtask of the job, or a vertex with all of its subtasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.hooks.failures import airflow_failures
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.job.causes import cause_first
from airflow_provider_ckpt.operators.group_run import Standing, subtasks_of
from airflow_provider_ckpt.operators.group_task import GroupTaskOperator
from airflow_provider_ckpt.report.status_line import LineKind
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.operators.task_run import TaskRun

_LOOK = 2.0
_OVER = (Standing.DONE, Standing.STOPPED)


class SubtaskTaskOperator(GroupTaskOperator):
    """One worker. It leaves when its subtask fails, so that a try of this task is a try of that subtask, and of no
    other: the next one goes on where the one before has come to. It leaves, too, when no JobMaster gives a sign of life
    (W7): then the task is deferred until there is one, and its try goes on with another worker. So it is when the run
    has failed as a whole: that costs the task that runs the JobMaster a try, which prepares the job again, and no
    other.

    :param subtask: ``history/0``, or ``history`` for all subtasks of that vertex in one Spark application.
    :param coordinate: id of the task that runs the JobMaster.
    """

    part = "subtask"
    template_fields: Sequence[str] = (*GroupTaskOperator.template_fields, "subtask")

    def __init__(self, *, subtask: str, coordinate: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subtask = subtask
        self.coordinate = coordinate
        self._nobody: Sequence[str] = GIVEN_UP
        """States of ``coordinate`` in which nobody is going to run a JobMaster."""
        self._waits_here = False

    def execute(self, context: Context) -> Any:
        self._nobody, self._waits_here = GIVEN_UP, False
        return self._go_on(context)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None, **_: Any) -> Any:
        """Called by Airflow when the wait is over. The try goes on as it has begun: what is left to do
        may be something else by now."""
        over = WaitOver("its trigger ended without an event") if event is None else WaitOver.from_json(event)
        self.log.info("The wait is over: %s", over.reason)
        self._waits_here = over.is_blind
        self._nobody = (*GIVEN_UP, "success") if over.is_alone else GIVEN_UP
        return self._go_on(context)

    def _go_on(self, context: Context) -> Any:
        with airflow_failures():
            run = self._start(context)
            state = self._prepared(context, run)
            if self._standing(state) in _OVER:
                return self._result(state)
            try:
                self._work(context, run, state.deployment)
            except AirflowFailException as error:
                self._go_on_if_its_own(context, run, state, error)
            return self._result(self._look(run))

    def _work(self, context: Context, run: TaskRun, deployment: int) -> None:
        part = ("--worker", self.subtask, "--deployment", str(deployment))
        try:
            more = (*self._timing_flags(run), *_tried(context))
            self._submit(context, run, *more, *part, application=self.subtask)
        except AirflowException:
            if self._killed:
                raise
            if run.lacks_master:
                self._await_master(context, run, deployment)
            if run.run_is_over:
                self._await_preparation(context, run)
            raise
        if not run.ended_well:
            raise AirflowException(f"The worker of {self.subtask} ended without an error, and did not say why")

    def _timing_flags(self, run: TaskRun) -> list[str]:
        timing = self._timing(run)
        chosen = [name for name in ("poll", "silence") if self._chosen[name] is not None]
        return [word for name in chosen for word in (f"--{name}", f"{getattr(timing, name):g}")]

    def _await_master(self, context: Context, run: TaskRun, deployment: int) -> NoReturn:
        """A try that began its worker now would be in vain, and a few of them would fail the group (W7)."""
        pointer = run.pointer
        self.log.info(
            "No JobMaster has job %s: deferred until %r runs one again; that costs no try and holds no worker slot",
            pointer.job_id,
            self.coordinate,
        )
        self._defer(context, run, deployment=deployment, epoch=pointer.epoch or deployment)

    def _await_preparation(self, context: Context, run: TaskRun) -> NoReturn:
        """Whoever waited in his slot might keep it from the very task that is to prepare the job."""
        self.log.info(
            "Job %s is to be prepared again: deferred until %r has done it; that costs no try and holds no worker slot",
            run.pointer.job_id,
            self.coordinate,
        )
        self._defer(context, run, deployment=0, epoch=0, attempt=run.options.attempt)

    def _defer(self, context: Context, run: TaskRun, **awaited: Any) -> NoReturn:
        """``awaited``: see :class:`AwaitedMasterTrigger`."""
        trigger = AwaitedMasterTrigger(
            job_id=run.pointer.job_id,
            coordinate=self.coordinate,
            ckpt_conn_id=self.ckpt_conn_id,
            root=run.pointer.root,
            poll_interval=self._poll_interval,
            **awaited,
        )
        self.defer(trigger=trigger, method_name="execute_complete", timeout=self._time_left(context))
        raise AssertionError("defer() raises")

    def _time_left(self, context: Context) -> timedelta | None:
        """Of ``execution_timeout``, since the try has begun: Airflow counts it anew in each process of a try."""
        if self.execution_timeout is None:
            return None
        spent = datetime.now(timezone.utc) - context["ti"].start_date
        return max(self.execution_timeout - spent, timedelta(0))

    def _go_on_if_its_own(
        self, context: Context, run: TaskRun, before: JobState, error: AirflowFailException
    ) -> NoReturn:
        """A worker that was overtaken by a deployment of its own Dag run is to join that, in this try; one that was
        overtaken in its deployment is to take the subtask back: somebody has begun a worker by hand (an earlier try
        takes nothing from a later one, W14)."""
        state = self._look(run)
        last = run.writer.last
        if last is None or last.kind != LineKind.FENCED or not self._group_run.owns(state):
            raise error
        if state.deployment == before.deployment:
            raise AirflowException(f"{error} By a later try of this task, or a worker that somebody began.") from error
        if self._killed:
            raise self._was_killed(run) from error
        self.log.info("%s That was this Dag run's own next deployment.", error)
        self._await_preparation(context, run)

    # ---- before the submission

    def _prepared(self, context: Context, run: TaskRun) -> JobState:
        """Once the job's deployment of this Dag run lives, or nothing is left to do. The task that runs the JobMaster
        prepares it again after a failure, in a retry of its own: that is waited for in the triggerer, unless it cannot
        tell, or the journal cannot be read here, which may be over in a moment."""
        silence = self._timing(run).silence
        until = time.monotonic() + silence
        while True:
            state = self._look_patiently(run)
            standing = None if state is None else self._standing(state)
            if state is not None and standing in _OVER:
                return state
            if state is not None and standing is Standing.TAKEN:
                raise self._taken(run, state)
            if state is not None and standing is Standing.FAILED:
                cause = cause_first(state.cause or "unknown")
                raise AirflowFailException(f"Job {state.job_id} failed for good: {cause}. Correct it, clear the group.")
            self._refuse_alone()
            if state is not None and standing is Standing.RUNS:
                return state
            if state is not None and not self._waits_here:
                self._await_preparation(context, run)
            if time.monotonic() >= until:
                raise AirflowException(f"Nobody has prepared job {run.pointer.job_id} again within {silence:g} s")
            time.sleep(_LOOK)

    def _look_patiently(self, run: TaskRun) -> JobState | None:
        try:
            return self._look(run)
        except TransientError as error:
            self.log.warning("The journal cannot be read now: %s", error)
            return None

    def _standing(self, state: JobState) -> Standing:
        return self._group_run.standing(state, subtasks_of(state, self.subtask))

    def _refuse_alone(self) -> None:
        """Without the JobMaster's task nobody prepares anything, nor commits it. Raises AirflowFailException."""
        if self._killed:
            raise AirflowException(f"The task of {self.subtask} was killed while it waited")
        found = self._siblings.states().get(self.coordinate)
        if found in self._nobody:
            raise AirflowFailException(f"Task {self.coordinate!r} is {found}: nobody coordinates {self.subtask}")

    # ---- the end

    def _result(self, state: JobState) -> dict[str, Any]:
        status = None if state.status is None else str(state.status)
        self.log.info("Nothing is left to do for %s (job %s, %s)", self.subtask, state.job_id, status)
        return {"job_id": state.job_id, "subtask": self.subtask, "status": status}

    def _was_killed(self, run: TaskRun) -> AirflowException:
        return AirflowException(
            f"Job {run.pointer.job_id}: the task of {self.subtask} was killed, and its worker has left. The others go "
            "on; a retry goes on with it."
        )

    def on_kill(self) -> None:
        """Have the worker leave at the end of its micro-batch, within ``stop_grace``, then end it. The job goes on."""
        hook = self._hook
        if not self._killed and isinstance(hook, CheckpointedSparkSubmitHook) and hook.ask_to_leave():
            self._killed = True
            if not hook.leave(self._stop_grace):
                SparkSubmitOperator.on_kill(self)
        super().on_kill()


def _tried(context: Context) -> tuple[str, ...]:
    """By which a worker of an earlier try that wakes up late is told from this one (W14). A Dag run that was deleted
    and made again counts its tries anew, so when the Dag run began tells it from the one before: nobody compares these
    times, they are the same or not."""
    ti = context["ti"]
    begun = context["dag_run"].start_date
    of = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}/{None if begun is None else begun.isoformat()}"
    return "--try-of", of, "--try", str(ti.try_number)
