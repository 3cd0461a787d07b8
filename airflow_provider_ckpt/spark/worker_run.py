"""The main function of a worker, which runs subtasks of a job as queries of its own Spark application."""

from __future__ import annotations

import functools
import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import new_nonce
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.remote.errors import DeploymentOverError, SubtaskTakenError
from airflow_provider_ckpt.remote.mailbox import Mailbox, worker_name
from airflow_provider_ckpt.remote.standby import Standby, Stoppable
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.remote.worker import Worker, WorkerEnd
from airflow_provider_ckpt.remote.worker_part import WorkerPart, check_owned
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.warm_up import begin_warm_up
from airflow_provider_ckpt.spark.errors import NoSuchSubtaskError, WorkerDiffersError
from airflow_provider_ckpt.spark.preparation.code_checks import check_code, check_declared, check_logic
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun, prepare
from airflow_provider_ckpt.spark.preparation.spark_gateway import SparkGateway
from airflow_provider_ckpt.spark.preparation.task_factory import SparkTaskFactory, make_context
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd, read_end
from airflow_provider_ckpt.spark.query.sources.frozen_files import without
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import NO_MASTER, RUN_OVER, LineKind
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailedLogs
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.restarts import Restarts

log = logging.getLogger(__name__)

OnStarted = Callable[[Stoppable], None]


@dataclass(frozen=True)
class WorkerRun:
    """The work of a worker process, as a function that the process calls with the loaded job.

    Attributes:
        requested: names of subtasks (``history/0``) or vertices. The name of a vertex means all its subtasks.
        on_started: called when the worker begins. Its argument has a method that makes the worker leave.
        standby: True if the worker prepares everything, waits, and runs subtasks that other workers drop.
        only_begun: True if a standby worker runs only subtasks that another worker has begun.
        deployment: epoch of the only deployment that the worker works for; 0 for the current or next deployment.
        restarts: True if failed subtasks restart in this worker, within the limits of the options.
        supervised: the supervisor's id and number of this start; None if the supervisor gives none.
        sleep: waits the given seconds between two polls for the deployment.
    """

    requested: Collection[str]
    timing: Timing
    on_started: OnStarted = lambda worker: None
    standby: bool = False
    only_begun: bool = False
    deployment: int = 0
    restarts: bool = True
    supervised: SupervisedTry | None = None
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __call__(self, run: LoadedRun) -> ExitCode:
        """Wait until the job is prepared for workers. Run the subtasks until they have finished or the run has ended.

        Return the exit code of the process.

        Raises InvalidInputError, OvertakenError, and storage errors.
        """
        reporter, job_id = run.request.reporter(), run.options.job_id
        state = self._await_plan(run.journal, reporter)
        if state.status is JobStatus.FINISHED:
            reporter.report(LineKind.FINISHED, f"job {job_id} has FINISHED already; nothing is left to run", state)
            return ExitCode.FINISHED
        if self.deployment and state.deployment != self.deployment:
            return report_deployment_over(reporter, state, self.deployment)
        if not state.deployment:
            reporter.report(LineKind.FAILED, f"job {job_id} is not prepared for workers", state, terminal=False)
            return ExitCode.FAILED
        subtasks = choose_subtasks(state, self.requested)
        prepared = prepare_again(run, state, subtasks)
        if self.standby:
            return self._stand_by(prepared, subtasks)
        return self._run(prepared, subtasks, self.on_started)

    def _await_plan(self, journal: Journal, reporter: StatusReporter) -> JobState:
        waited, is_reported = 0.0, False
        while True:
            state = journal.refresh()
            if (
                self.deployment
                or state.deployment
                or state.status is JobStatus.FINISHED
                or waited >= self.timing.silence
            ):
                return state
            if not is_reported:
                reporter.report(LineKind.WAITING, f"waiting for job {journal.job_id} to be prepared for workers", state)
                is_reported = True
            self.sleep(self.timing.poll)
            waited += self.timing.poll

    def _stand_by(self, prepared: PreparedRun, subtasks: tuple[SubtaskId, ...]) -> ExitCode:
        """Run those of ``subtasks`` that other workers drop, until all have finished or the run has ended."""
        journal, job_id = prepared.run.journal, prepared.options.job_id
        deployment, status = journal.state.deployment, prepared.run.request.reporter(prepared.application)

        def report_warm(seconds: float) -> None:
            status.report(LineKind.WAITING, f"Spark is warm, after {seconds:.1f} s", warm=True)

        begin_warm_up(prepared.spark, report_warm, stateful=bool(prepared.plan.stateful()))
        leave_request = _LeaveRequest()
        self.on_started(leave_request)
        while True:
            standby = Standby(
                prepared.run.storage,
                job_id,
                deployment,
                subtasks,
                journal.refresh,
                self.timing,
                only_begun=self.only_begun,
                is_healthy=lambda: not is_gone(),
            )
            leave_request.bind(standby)
            text = f"this worker stands by for {', '.join(subtasks)} of job {job_id}"
            status.report(LineKind.WAITING, text, journal.state, subtasks=list(subtasks))
            result = standby.wait()
            if result is WorkerEnd.JOB_OVER:
                return report_deployment_over(status, journal.state, deployment)
            if isinstance(result, WorkerEnd):
                return report_end(status, journal.state, job_id, result, None)
            try:
                code = self._run(prepared, result, leave_request.bind)
            except SubtaskTakenError as error:  # another worker on standby, or a restarted one, was first
                status.report(LineKind.WARNING, str(error), journal.state)
                continue
            if code is not ExitCode.FINISHED or journal.state.deployment != deployment:
                return code

    def _run(self, prepared: PreparedRun, subtasks: tuple[SubtaskId, ...], on_started: OnStarted) -> ExitCode:
        storage, journal, job_id = prepared.run.storage, prepared.run.journal, prepared.options.job_id
        state = journal.state
        check_code(prepared.job, prepared.options.job, state, subtasks)
        check_logic(prepared.logic, state, subtasks)  # during a standby, functions may have been assigned or edited
        status = prepared.run.request.reporter(prepared.application)
        logs: dict[SubtaskId, SubtaskLog] = {}

        worker = Worker(
            job_id,
            WorkerPart.of(storage, state, subtasks, restarts=self.restarts and prepared.options.restart_attempts > 0),
            Mailbox(
                storage,
                job_id,
                state.deployment,
                worker_name(secrets.token_hex(4)),
                identify(prepared.application),
                time.monotonic,
                subtasks,
            ),
            journal.refresh,
            functools.partial(check_owned, logs),
            lambda part, state: part.with_added_subtasks(storage, state),
            poll_interval=self.timing.poll,
            silence=self.timing.silence,
            make_nonce=new_nonce,
        )
        on_started(worker)
        with ThreadPoolExecutor(len(subtasks), thread_name_prefix="ckpt-batch") as batch_thread:
            context = self._context(prepared, state, worker)
            frozen, splits = _frozen(storage, state), _splits(storage, state)
            log_of = TailedLogs(storage, job_id).__getitem__
            factory = SparkTaskFactory(context, prepared, state, frozen, splits, logs, log_of, batch_thread)
            gateway = SparkGateway(context, {}, Restarts(factory, worker.post, worker.new_nonce))
            text = f"this worker runs {', '.join(subtasks)} of job {job_id}"
            status.report(LineKind.STARTED, text, state, subtasks=list(subtasks), **prepared.places())
            for other in prepared.logic.changed:
                status.report(LineKind.WARNING, str(other), state)
            end = worker.run(gateway)
            if end is WorkerEnd.FAILED and worker.failure is not None:
                return report_failed_subtask(status, journal.state, worker.failure)
            return report_end(status, journal.state, job_id, end, worker.job_status)

    def _context(self, prepared: PreparedRun, state: JobState, worker: Worker) -> RunContext:
        """Return the context of a worker's tasks. Unlike a driver's tasks, they do not check the journal for a fence.

        If another driver takes over, it opens every subtask log, and the worker finds the newer attempt there (W4).
        """
        return replace(
            make_context(prepared, state, state.deployment, worker.post, check_fenced=lambda: None),
            supervised=self.supervised,
            check_declared=functools.partial(check_declared, prepared.job, prepared.options.job, state),
        )


class _LeaveRequest:
    """A request to leave, for a worker that changes between standby and work. It is kept if it comes in between."""

    def __init__(self) -> None:
        self._current: Stoppable | None = None
        self._is_asked = False

    def bind(self, worker: Stoppable) -> None:
        self._current = worker
        if self._is_asked:
            worker.leave()

    def leave(self) -> None:
        self._is_asked = True
        if self._current is not None:
            self._current.leave()


def report_deployment_over(status: StatusReporter, state: JobState, deployment: int) -> ExitCode:
    """Report that the JobMaster of the worker's deployment no longer runs the job, and return the exit code.

    Raises DeploymentOverError if another driver or deployment runs the job.
    """
    if state.status is None or state.status.is_alive:
        reason = f"epoch {state.epoch} has the job ({state.worker})"
        raise DeploymentOverError(job_id=state.job_id, deployment=deployment, why=reason)
    return report_end(status, state, state.job_id, WorkerEnd.JOB_OVER, state.status)


def report_failed_subtask(status: StatusReporter, state: JobState, failure: SubtaskFailed) -> ExitCode:
    """Report in a status line that a subtask failed and the worker stops. Return the exit code.

    The JobMaster gets the failure from the worker, and decides about a retry. If an input of the subtask is lost, the
    status line says that the whole run must end.
    """
    message = f"{failure.subtask} failed, so this worker stops: {failure.cause}"
    fields: dict[str, object] = {} if failure.traceback is None else {"traceback": failure.traceback}
    if failure.result_is_lost:
        fields[RUN_OVER] = True
    status.report(LineKind.FAILED, message, state, terminal=False, **fields)
    return ExitCode.FAILED


def report_end(
    status: StatusReporter, state: JobState, job_id: str, end: WorkerEnd, job_status: JobStatus | None
) -> ExitCode:
    if end is WorkerEnd.DONE:
        status.report(LineKind.FINISHED, f"the subtasks of this worker have finished (job {job_id})", state)
        return ExitCode.FINISHED
    if end is WorkerEnd.JOB_OVER and job_status is not None:
        code = ExitCode.of_run(job_status)
        kind = LineKind.STOPPED if code is ExitCode.FINISHED else LineKind.FAILED
        resumes = {RUN_OVER: True} if job_status is JobStatus.RESTARTING else {}
        text = f"job {job_id} is {job_status}, so this worker stops"
        status.report(kind, text, state, terminal=job_status.is_terminal, **resumes)
        return code
    message = f"this worker stops, because {end.value}. Another worker resumes its subtasks (job {job_id})"
    kind, fields = LineKind.STOPPED if end is WorkerEnd.ASKED else LineKind.FAILED, {}
    if end is WorkerEnd.NO_MASTER:
        fields[NO_MASTER] = True  # another attempt is useless until a JobMaster runs
    status.report(kind, message, state, terminal=False, **fields)
    return ExitCode.FAILED


def choose_subtasks(state: JobState, requested: Collection[str]) -> tuple[SubtaskId, ...]:
    """Return the requested subtasks, and the subtasks that a rescale has added and that run in the same worker.

    Raises NoSuchSubtaskError.
    """
    for name in requested:
        host = state.hosts.get(SubtaskId(name))
        if host is not None:  # this worker and the host's worker would fence each other's attempts
            raise NoSuchSubtaskError(
                "{subtask!r} of job {job_id!r} was added by a rescale, and the worker that runs {host!r} runs it, "
                "too. Ask for {host!r}; to run each by itself, declare the parallelism in the job, and start the job "
                "again",
                job_id=state.job_id,
                subtask=name,
                host=host,
            )
        if not state.subtasks_of_process(name):
            raise NoSuchSubtaskError(job_id=state.job_id, subtask=name, known=", ".join(state.assignable()))
    return tuple(dict.fromkeys(subtask for name in requested for subtask in state.subtasks_of_process(name)))


def prepare_again(run: LoadedRun, state: JobState, subtasks: Collection[SubtaskId]) -> PreparedRun:
    """Prepare the job in a worker. Refuse parameters, code or a plan that differ from the recorded ones.

    Code is compared only for ``subtasks``.

    Raises WorkerDiffersError, and the errors of :func:`prepare`.
    """
    assert state.plan is not None
    assert state.definition is not None
    options = run.options
    if dict(options.params) != dict(state.definition.params):  # the likeliest mistake, so check it before Spark starts
        raise WorkerDiffersError(job_id=options.job_id, what="the parameters", deployment=state.deployment)
    check_code(run.job, options.job, state, subtasks)
    run = run.with_options(restore=RunOptions.restore, new_settings=False)  # the first driver has applied them
    check = functools.partial(check_logic, state=state, subtasks=subtasks)
    prepared = prepare(run, decide(run.storage, run.options, state), check)
    if prepared.refused is not None:
        raise prepared.refused
    differs = [
        part
        for part, is_same in {
            "the graph": prepared.plan.graph == state.graph(),
            "the columns": prepared.plan.schemas_json() == dict(state.plan.schemas),
        }.items()
        if not is_same
    ]
    if differs:
        raise WorkerDiffersError(job_id=options.job_id, what=" and ".join(differs), deployment=state.deployment)
    return prepared


def _frozen(storage: Storage, state: JobState) -> dict[str, FrozenEnd]:
    """Return source -> frozen end, without sources with splits. A worker only reads frozen ends (R11)."""
    by_split = {vertex.uid for vertex in state.graph().vertices if vertex.splits}
    ends = {
        uid: read_end(storage, f"{state.job_id}/{source.path}")
        for uid, source in state.frozen.items()
        if source.path is not None and uid not in by_split
    }
    return without(ends, state.forgotten_files)


def _splits(storage: Storage, state: JobState) -> dict[str, Sequence[Split]]:
    by_split = {vertex.uid for vertex in state.graph().vertices if vertex.splits}
    return {
        uid: read_frozen_splits(storage, f"{state.job_id}/{source.path}")
        for uid, source in state.frozen.items()
        if source.path is not None and uid in by_split
    }
