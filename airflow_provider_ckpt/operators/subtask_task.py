"""The tasks of a group that start workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.operators.group_run import GroupStatus, may_run_again
from airflow_provider_ckpt.operators.task_start import failed_job_error
from airflow_provider_ckpt.operators.waiting_task import WaitingTaskOperator
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.triggers.group_task_states import GIVEN_UP
from airflow_provider_ckpt.triggers.group_wait import WaitResult

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.ids import SubtaskId
    from airflow_provider_ckpt.operators.task_run import TaskRun

_POLL = 2.0
_OVER = (GroupStatus.DONE, GroupStatus.STOPPED)
_GREEN = "This task ends now. If its result is lost before others have read it, clear the group."


class SubtaskTaskOperator(WaitingTaskOperator):
    """Task with one worker, which runs one subtask of the job or all subtasks of a vertex.

    The worker leaves when its subtask fails. So each try of this task is a try of that subtask alone, and the next try
    resumes the subtask.

    Without a JobMaster the worker leaves, too. The task is then deferred until there is a JobMaster, and the same try
    starts another worker (W7). The task is also deferred after the run has failed as a whole, because the next try of
    the JobMaster's task prepares the job again. In batch mode the task of a finished subtask is deferred until the job
    is over.

    :param subtask: ``history/0``, or ``history`` for all subtasks of that vertex in one Spark application.
    :param coordinate: id of the task that runs the JobMaster.
    :param has_standbys: True if standbys exist (:class:`StandbyTaskOperator`). If a standby has the subtask, a retry
        becomes a standby.
    :param deferrable: False to never defer the task, for an Airflow without a triggerer.
    """

    part = "subtask"
    template_fields: Sequence[str] = (*WaitingTaskOperator.template_fields, "subtask")

    def __init__(self, *, subtask: str, has_standbys: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subtask = subtask
        self.has_standbys = has_standbys

    def execute(self, context: Context) -> Any:
        self._reset_wait()
        return self._resume(context)

    def execute_complete(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        since: str | None = None,
        ran_well: bool = False,
        **_: Any,
    ) -> Any:
        """Continue the try after the wait. The job's state is read again, because it may have changed."""
        result = WaitResult("its trigger ended without an event") if event is None else WaitResult.from_json(event)
        self._resume_after(result, since, ran_well=ran_well)
        return self._resume(context)

    def _resume(self, context: Context) -> Any:
        with airflow_failures():
            run = self._start(context)
            state = self._prepared(context, run)
            if self._group_status(state) is not GroupStatus.RUNS:
                return self._result(state)
            try:
                self._run_worker(context, run, state)
            except AirflowFailException as error:
                self._rejoin_own_run(context, run, state, error)
            return self._result(
                self._await_end_if_needed(context, run, state) if may_run_again(state) else self._read_state(run)
            )

    def _subtasks(self, state: JobState) -> tuple[SubtaskId, ...]:
        return state.subtasks_of_process(self.subtask)

    def _worker_arguments(self, context: Context, state: JobState) -> list[str]:
        """Return the driver's arguments that select the subtasks of this task."""
        standby = ["--standby"] if self.has_standbys and context["ti"].try_number > 1 else []
        return ["--worker", self.subtask, *standby]

    def _run_worker(self, context: Context, run: TaskRun, state: JobState) -> None:
        deployment = state.deployment
        part = (*self._worker_arguments(context, state), "--deployment", str(deployment))
        try:
            flags = (*self._timing_flags(run), *_try_arguments(context))
            self._submit(context, run, *flags, *part, application=self.subtask)
        except AirflowException:
            if self._killed or not self.is_deferrable:
                raise
            if run.lacks_master:
                self._await_master(context, run, deployment)
            if run.run_is_over:
                self._await_preparation(context, run)
            raise
        if not run.ended_well:
            raise AirflowException(f"The worker of {self.subtask} ended without an error and without a reason")

    def _timing_flags(self, run: TaskRun) -> list[str]:
        timing = self._timing(run)
        names = ("poll", "silence", "lost_after") if self.has_standbys else ("poll", "silence")
        chosen = [name for name in names if self._chosen[name] is not None]
        return [word for name in chosen for word in (f"--{name.replace('_', '-')}", f"{getattr(timing, name):g}")]

    def _rejoin_own_run(
        self, context: Context, run: TaskRun, before: JobState, error: AirflowFailException
    ) -> NoReturn:
        """Wait for the next deployment, or raise an error, after the worker was fenced.

        If a later deployment has fenced the worker, this try waits for that deployment and joins it. If another worker
        of the same deployment has fenced this worker, the next try takes the subtask back. An earlier try never takes a
        subtask from a later try (W14).

        Raises ``error`` if the worker was not fenced or another Dag run has the job. Raises AirflowException if the
        next try must start the worker.
        """
        state = self._read_state(run)
        last = run.writer.last
        if last is None or last.kind != LineKind.FENCED or not self._group_run.owns(state):
            raise error
        if state.deployment == before.deployment:
            raise AirflowException(f"{error} A later try has the subtask, or a worker that a user began.") from error
        if self._killed:
            raise self._killed_error(run) from error
        if not self.is_deferrable:
            raise AirflowException(f"{error} The next try joins this Dag run's own next deployment.") from error
        self.log.info("%s That was this Dag run's own next deployment.", error)
        self._await_preparation(context, run)

    # ---- before the submission

    def _prepared(self, context: Context, run: TaskRun) -> JobState:
        """Return the job's state when this Dag run has a running deployment, or when nothing is left to do.

        After a failed run, a retry of the JobMaster's task prepares the job again. This task waits for the
        preparation in the triggerer. It waits in its slot if the triggerer cannot read the root, or if the journal is
        unreadable at the moment.
        """
        silence = self._timing(run).silence
        deadline = time.monotonic() + silence
        while True:
            state = self._try_read_state(run)
            status = None if state is None else self._group_status(state)
            if state is not None and self._is_over(run, state):
                return state
            self._refuse_without_master(GIVEN_UP if state is None else self._final_states)
            if state is not None and status is GroupStatus.KEPT:
                self._retain(context, run, state, state.deployment)
            if state is not None and status in (GroupStatus.RUNS, GroupStatus.KEPT):
                return state
            if state is not None and not self._holds_slot:
                self._await_preparation(context, run)
            if time.monotonic() >= deadline:
                problem = "could not be read" if state is None else "was not prepared again"
                raise AirflowException(f"Job {run.pointer.job_id} {problem} within {silence:g} s")
            time.sleep(_POLL)

    def _is_over(self, run: TaskRun, state: JobState) -> bool:
        """Return True if this task has nothing left to do.

        Raises AirflowFailException if this task must not resume the job, and JobDeletedError if the job was deleted.
        """
        status = self._group_status(state)
        if status in _OVER:
            return True
        state.refuse_deleted()
        if status is GroupStatus.TAKEN:
            raise self._taken_over_error(run, state)
        if status is GroupStatus.FAILED:
            raise failed_job_error(state, "group")
        return False

    def _try_read_state(self, run: TaskRun) -> JobState | None:
        try:
            state = self._read_state(run)
        except TransientError as error:
            self.log.warning("The journal cannot be read now: %s", error)
            return None
        if is_whole(state):
            return state
        self.log.warning("The journal cannot be read now: %s", "; ".join(state.damage) or "it is not there")
        return None

    def _group_status(self, state: JobState) -> GroupStatus:
        if state.has_finished:
            return GroupStatus.DONE  # even if the job is deleted by now, because a clean-up need not wait for this task
        return self._group_run.status_for(state, self._subtasks(state))

    def _refuse_without_master(self, final_states: Sequence[str]) -> None:
        """Fail for good if the JobMaster's task is in one of ``final_states``, because no other task runs a JobMaster.

        ``final_states`` includes success only if the journal can be read, because a successful task may have run the
        job to its end.
        """
        if self._killed:
            raise AirflowException(f"The task of {self.subtask} was killed while it waited")
        state = self._siblings.states().get(self.coordinate)
        if state in final_states:
            raise AirflowFailException(f"Task {self.coordinate!r} is {state}: no JobMaster coordinates {self.subtask}")

    # ---- the end

    def _await_end_if_needed(self, context: Context, run: TaskRun, ran: JobState) -> JobState:
        """Return the job's state if nothing is left to do, else defer the task.

        ``ran`` is the job's state from before the worker's run, which ended well. The worker's subtasks do not run
        again in that deployment, even if the journal does not show their end yet.
        """
        state = self._try_read_state(run)
        if state is None or not self._is_over(run, state):
            self._retain(context, run, state or ran, ran.deployment)
        return state or ran

    def _retain(self, context: Context, run: TaskRun, state: JobState, deployment: int) -> None:
        """Defer the task until the job is over, or until a deployment after ``deployment`` needs the result again.

        The task is not deferred if the wait would block other tasks, or if the triggerer cannot read the job. A user
        must then clear the group if the result is lost later.
        """
        if self._holds_slot:
            reason = "The triggerer cannot look at the job." if self.is_deferrable else "deferrable=False."
            self.log.warning("%s %s", reason, _GREEN)
        elif self._exceeds_task_limit(len(state.assignable()), context["ti"].map_index):
            self.log.warning("max_active_tis_per_dagrun, or …per_dag, counts deferred tasks, too. %s", _GREEN)
        else:
            self._await_the_end(run, self._subtasks(state), deployment)

    def _exceeds_task_limit(self, count: int, map_index: int | None) -> bool:
        """Return True if the task is mapped and Airflow allows fewer than ``count`` running and deferred instances."""
        limits = (self.max_active_tis_per_dag, self.max_active_tis_per_dagrun)
        is_mapped = map_index is not None and map_index >= 0
        return is_mapped and any(limit is not None and limit < count for limit in limits)

    def _result(self, state: JobState) -> dict[str, Any]:
        status = None if state.status is None else str(state.status)
        shown = status or "not RUNNING yet"
        self.log.info("Nothing is left to do for %s (job %s, %s)", self.subtask, state.job_id, shown)
        return {"job_id": state.job_id, "subtask": self.subtask, "status": status}

    def _killed_error(self, run: TaskRun) -> AirflowException:
        return AirflowException(
            f"Job {run.pointer.job_id}: the task of {self.subtask} was killed, and its worker has left. The others "
            "continue; a retry resumes it."
        )

    def on_kill(self) -> None:
        """Ask the worker to leave after its micro-batch, and end it after ``stop_grace``. The job continues."""
        hook = self._hook
        if not self._killed and isinstance(hook, CheckpointedSparkSubmitHook) and hook.ask_to_leave():
            self._killed = True
            if not hook.leave(self._stop_grace):
                SparkSubmitOperator.on_kill(self)
        super().on_kill()


def _try_arguments(context: Context) -> tuple[str, ...]:
    """Return the driver's arguments that name this task and its try, to refuse a late worker of an earlier try.

    The task's name has the start of the Dag run, because a Dag run that was created again counts its tries from 1.
    Names are only compared for equality (W14).
    """
    ti = context["ti"]
    started_at = context["dag_run"].start_date
    task_name = (
        f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}/{None if started_at is None else started_at.isoformat()}"
    )
    return "--try-of", task_name, "--try", str(ti.try_number)


class StandbyTaskOperator(SubtaskTaskOperator):
    """Task with a running Spark that takes over the subtasks of a lost worker within seconds, without a new JVM.

    The standby runs the subtasks until they finish, and the retry of their task becomes a standby. It does not take
    over a subtask that no worker has begun, because the subtask's own task begins it. The standby ends with the last
    subtask of the job.
    """

    part = "standby"

    def __init__(self, *, subtask: str = "all subtasks", **kwargs: Any) -> None:
        super().__init__(subtask=subtask, has_standbys=True, **kwargs)

    def _subtasks(self, state: JobState) -> tuple[SubtaskId, ...]:
        return () if state.plan is None else state.graph().subtasks

    def _worker_arguments(self, context: Context, state: JobState) -> list[str]:
        words = [word for subtask in state.assignable() for word in ("--worker", str(subtask))]
        return [*words, "--standby", "--begun"]
