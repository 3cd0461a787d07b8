"""The task of a group that runs the job's JobMaster."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.concurrency import answer_within
from airflow_provider_ckpt.connections.environment import hand_over
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.driver_connections import DriverConnections, driver_connections
from airflow_provider_ckpt.hooks.driver_log import log_status
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.group_run import GroupStatus
from airflow_provider_ckpt.operators.group_task import GroupTaskOperator
from airflow_provider_ckpt.operators.job_file import resolve_job
from airflow_provider_ckpt.operators.task_start import failed_job_error
from airflow_provider_ckpt.operators.triggerer_support import TriggererSupport, find_triggerer_support, master_runner
from airflow_provider_ckpt.remote.master_host import MasterHost
from airflow_provider_ckpt.status.exit_code import ExitCode, is_for_good
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine
from airflow_provider_ckpt.triggers.abandoned_subtasks import AbandonedSubtasks
from airflow_provider_ckpt.triggers.group_task_states import GIVEN_UP, tasks_of_subtasks
from airflow_provider_ckpt.triggers.job_master import JobMasterTrigger
from airflow_provider_ckpt.triggers.master_verdict import MasterVerdict

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.operators.task_run import TaskRun
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.status.exit_code import ExitCode


class WaitedMaster:
    """A JobMaster in another thread, so that the main thread, which waits, can handle signals at once."""

    def __init__(self, run: Callable[[OnMaster], ExitCode]) -> None:
        self._news: queue.SimpleQueue[ExitCode | None] = queue.SimpleQueue()  # reentrant, for signal handlers
        self.host = MasterHost(run, self._news.put)

    def wait(self, seconds: float) -> ExitCode | None:
        """Return the exit code of the JobMaster's run, or None after ``seconds`` or a call of :meth:`wake`."""
        try:
            return self._news.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """End a :meth:`wait`. A signal handler may call this in the waiting thread."""
        self._news.put(None)


WATCH = 5.0
"""Seconds between two polls of Airflow for the states of the subtasks' tasks."""
_ASK_TIMEOUT = 2.0


class MasterTaskOperator(GroupTaskOperator):
    """Task that runs the JobMaster, and ends when the job ends, with the job's result.

    If the triggerer can make the job's sinks from the journal alone, the JobMaster runs in the triggerer, and this task
    is deferred. Otherwise the task logs the reason and keeps its worker slot as long as the job runs.

    The task runs no Spark, except for a retry that must prepare the job again.

    :param subtasks: names of the subtasks or vertices that the group's other tasks run.
    :param subtask_tasks: ids of these tasks in the same order, or the id of the task that is mapped over the names.
    :param deferrable: False to always run the JobMaster in this task.
    """

    part = "coordinate"
    template_fields: Sequence[str] = (*GroupTaskOperator.template_fields, "subtasks")

    def __init__(
        self, *, subtasks: Any, subtask_tasks: str | Sequence[str], deferrable: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.is_deferrable = deferrable
        self.subtasks = subtasks
        self.subtask_tasks = subtask_tasks
        self._waited: WaitedMaster | None = None
        self._is_leaving = False

    def execute(self, context: Context) -> Any:
        self._waited, self._is_leaving = None, False
        with airflow_failures():
            run = self._start(context)
            if self._is_over(run):
                return self._publish_result(context, self._result(run))
            if self._group_run.status_for(self._read_state(run)) is not GroupStatus.RUNS:
                run = self._prepare_again(context, run)
            state = self._read_state(run)
            if self._group_run.status_for(state) is GroupStatus.RUNS:
                self._refuse_uncovered(state)
                self._withdraw_stop(run, state)
                self._coordinate(run, state)
            elif self._group_run.status_for(state) is not GroupStatus.DONE:
                raise self._not_prepared_error(state)
            return self._publish_result(context, self._result(run))

    # ---- before the run

    def _is_over(self, run: TaskRun) -> bool:
        """Return True if the job has already ended well. Raises AirflowFailException if the job must not be resumed."""
        state = self._read_state(run)
        status = self._group_run.status_for(state)
        if status is GroupStatus.DONE:
            return True
        if self._was_cleared:
            return False
        if status is GroupStatus.TAKEN:
            raise self._taken_over_error(run, state)
        if status is GroupStatus.FAILED:
            raise failed_job_error(state, "group")
        return status is GroupStatus.STOPPED

    def _prepare_again(self, context: Context, run: TaskRun) -> TaskRun:
        state = self._read_state(run)
        self.log.info("Job %s is %s: preparing it again", state.job_id, state.status)
        # Only a clear resumes a FAILED job: the user declares that the cause is corrected.
        has_failed = state.status is JobStatus.FAILED
        options = replace(run.options, resume_failed=has_failed, restore="latest")
        self._ckpt_run = run = replace(run, options=options)
        self._submit(context, run, "--plan", application="plan")
        return run

    def _refuse_uncovered(self, state: JobState) -> None:
        """Fail for good if the job has a subtask that no task of the group runs."""
        covered = {subtask for name in self.subtasks for subtask in state.subtasks_of_process(name)}
        # A subtask that a rescale added and that has not begun runs with its host. `resolve` omits it.
        missing = {
            subtask for subtask in state.graph().subtasks if state.hosts.get(subtask, subtask) not in covered
        } - state.finished
        if missing:
            raise AirflowFailException(
                f"Job {state.job_id} has subtasks that no task of this group runs: {', '.join(sorted(missing))}. Clear "
                "the group, so that the job is planned again; a group with a list of subtasks has to name all of them."
            )

    def _withdraw_stop(self, run: TaskRun, state: JobState) -> None:
        """Withdraw the stop that a killed earlier try requested, because the user's clear resumes the job."""
        if self._was_cleared and run.hook.client(state.job_id).withdraw_leaves(state.epoch):
            self.log.info("The job was asked to stop when an earlier try was killed; the clear takes that back")

    # ---- the run

    def _coordinate(self, run: TaskRun, state: JobState) -> None:
        """Defer the task, or run the JobMaster in this task. Raises AirflowException unless the JobMaster ends well."""
        options = replace(run.options, job=resolve_job(run.options.job, self._job_folders()))
        support = (
            find_triggerer_support(options, run.hook.settings(), state)
            if self.is_deferrable
            else TriggererSupport("deferrable=False")
        )
        if support.problem is None:
            run.record(StatusLine(LineKind.PREPARED, "the triggerer runs the JobMaster", {"outputs": support.outputs}))
            run.writer.pointer = replace(run.pointer, is_deferred=True)
            run.writer.flush()
            self.defer(
                trigger=self._trigger(run, options), method_name="execute_complete", timeout=self.execution_timeout
            )
        self.log.info("The JobMaster runs in this task, which keeps its worker slot: %s", support.problem)
        self._run_master(run, options)

    def _trigger(self, run: TaskRun, options: RunOptions) -> JobMasterTrigger:
        return JobMasterTrigger(
            job_id=run.pointer.job_id,
            options=options.to_json(),
            ckpt_conn_id=self.ckpt_conn_id,
            root=run.pointer.root,
            group_id=self._siblings.group_id,
            tasks=self._tasks(),
            timing=asdict(self._timing(run)),
        )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        """Return the job's result, or raise its failure, as the trigger's event reports it."""
        with airflow_failures():
            if event is None:
                raise AirflowFailException("The trigger ended without an event")
            verdict, run = MasterVerdict.from_json(event), self._start(context)
            self._judge(run, verdict.exit_code, verdict.abandoned, verdict.line)
            return self._publish_result(context, self._result(run))

    def _run_master(self, run: TaskRun, options: RunOptions) -> None:
        connections = driver_connections(self.conn_ids)
        hand_over(connections.environ)  # because this process releases the sinks
        run_master = master_runner(
            options, run.hook.settings(), self._status_handler(run, connections), self._timing(run)
        )
        self._waited = waited = WaitedMaster(run_master)
        host = waited.host
        host.start()
        watch = AbandonedSubtasks(self._tasks(), self._siblings.states, run.hook.client(run.pointer.job_id).read_state)
        while (code := waited.wait(WATCH)) is None:
            if self._is_leaving and not host.has_ended_within(0):
                raise AirflowException(
                    f"Job {run.pointer.job_id}: this task was killed. The workers continue; a retry coordinates them."
                )
            cause = watch.check()
            if cause is not None:
                host.end_early(cause)
        run.writer.flush()
        self._judge(run, code, host.end_cause, run.writer.last)

    def _status_handler(self, run: TaskRun, connections: DriverConnections) -> Callable[[StatusLine], None]:
        location = run.hook.settings()

        def redact(text: str) -> str:
            return connections.redact(location.redact(text))

        def report(line: StatusLine) -> None:
            shown = line.redacted(redact)
            log_status(self.log, shown)
            run.record(shown)

        return report

    def _tasks(self) -> dict[str, str]:
        """Return key of a task in :meth:`Siblings.states` -> subtask or vertex that the task runs."""
        mapped = self.subtask_tasks if isinstance(self.subtask_tasks, str) else None
        listed = () if mapped is not None else tuple(self.subtask_tasks)
        return tasks_of_subtasks(mapped, tuple(self.subtasks), listed)

    def _judge(self, run: TaskRun, code: ExitCode, abandoned: str | None, last: StatusLine | None) -> None:
        if code is ExitCode.FINISHED:
            return
        if self._killed:
            raise AirflowException(f"Job {run.pointer.job_id}: this task was killed, and the job has left.")
        if abandoned is not None:
            raise AirflowFailException(f"Job {run.pointer.job_id}: {abandoned}")
        if last is None or not last.went_wrong:
            raise AirflowException(f"Job {run.pointer.job_id}: its JobMaster has ended without a reason ({code.name})")
        for_good = is_for_good(code, last.kind)
        raise (AirflowFailException if for_good else AirflowException)(f"Job {run.pointer.job_id}: {last.message}")

    def _result(self, run: TaskRun) -> dict[str, Any]:
        state = self._read_state(run)
        run.writer.pointer = replace(run.pointer.as_of(state), status=state.status or run.pointer.status)
        run.writer.flush()
        return run.pointer.summary()

    # ---- a kill

    def on_kill(self) -> None:
        """Ask the job to stop if a user has marked the task, and wait up to ``stop_grace`` for its savepoint.

        The job continues if the worker is shut down or if a user has cleared the task, because the next try coordinates
        the same workers.
        """
        waited, run = self._waited, self._ckpt_run
        if self._killed or waited is None or run is None:
            super().on_kill()  # ends the driver that prepares the job, if there is one
            return
        self._killed = True
        deadline = time.monotonic() + self._stop_grace
        if self._is_marked_by_user() and self._ask_to_stop(run):
            waited.host.has_ended_within(max(0.0, deadline - time.monotonic()))
        self._is_leaving = True
        waited.wake()

    def _is_marked_by_user(self) -> bool:
        """Return True if a user has marked the task failed or successful. False if Airflow does not answer within 2 s.

        Another thread asks Airflow, because the signal may have interrupted a request of this thread.
        """
        states = answer_within(_ASK_TIMEOUT, self._siblings.states)
        return states is not None and states.get(self.task_id) in (*GIVEN_UP, "success")
