"""Status lines and exit codes at the end of a worker."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.reports import SubtaskFailed
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.errors import DeploymentOverError
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.report.exit_code import ExitCode
from airflow_provider_ckpt.report.status_line import NO_MASTER, RUN_OVER, LineKind
from airflow_provider_ckpt.report.status_reporter import StatusReporter


def told_late(status: StatusReporter, state: JobState, deployment: int) -> ExitCode:
    """Report that the worker's deployment is over, and return the exit code.

    Raises DeploymentOverError if another driver or deployment runs the job.
    """
    if state.status is None or state.status.is_alive:
        why = f"epoch {state.epoch} has the job ({state.worker})"
        raise DeploymentOverError(job_id=state.job_id, deployment=deployment, why=why)
    return told(status, state, state.job_id, WorkerEnd.JOB_OVER, state.status)


def told_failed(status: StatusReporter, state: JobState, failure: SubtaskFailed) -> ExitCode:
    """Report the failed subtask, and return the exit code.

    The JobMaster also gets the failure, and decides whether a retry may help. A lost result that the subtask reads ends
    the whole run, and is not the fault of this worker.
    """
    message = f"{failure.subtask} failed, and this worker leaves with it: {failure.cause}"
    more: dict[str, object] = {} if failure.traceback is None else {"traceback": failure.traceback}
    if failure.result_is_lost:
        more[RUN_OVER] = True
    status.say(LineKind.FAILED, message, state, terminal=False, **more)
    return ExitCode.FAILED


def told(
    status: StatusReporter, state: JobState, job_id: str, end: WorkerEnd, job_status: JobStatus | None
) -> ExitCode:
    if end is WorkerEnd.DONE:
        status.say(LineKind.FINISHED, f"the subtasks of this worker have finished (job {job_id})", state)
        return ExitCode.FINISHED
    if end is WorkerEnd.JOB_OVER and job_status is not None:
        code = ExitCode.of_run(job_status)
        kind = LineKind.STOPPED if code is ExitCode.FINISHED else LineKind.FAILED
        goes_on = {RUN_OVER: True} if job_status is JobStatus.RESTARTING else {}
        text = f"job {job_id} is {job_status}: this worker leaves"
        status.say(kind, text, state, terminal=job_status.is_terminal, **goes_on)
        return code
    message = f"this worker leaves, {end.value}; another worker resumes its subtasks (job {job_id})"
    kind, more = LineKind.STOPPED if end is WorkerEnd.ASKED else LineKind.FAILED, {}
    if end is WorkerEnd.NO_MASTER:
        more[NO_MASTER] = True  # another attempt is useless until a JobMaster runs
    status.say(kind, message, state, terminal=False, **more)
    return ExitCode.FAILED
