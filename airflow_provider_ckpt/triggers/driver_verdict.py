"""The verdict on a driver in a cluster, for the task that waits for the driver."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ckpt.client.job_facts import full_result
from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, Submission
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.printable import each_text, one_line

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

Outcome = Literal["wait", "succeeded", "failed", "retry", "left"]


@dataclass(frozen=True)
class DriverVerdict:
    """Verdict on a driver.

    Args:
        outcome: ``wait`` if the driver runs or may run. ``succeeded`` if the job ended well. ``failed`` if another try
            would fail, too. ``retry`` if another try may succeed. ``left`` if the driver has left the job as requested,
            so that the task submits a new driver.
        result: Status and progress of the job. None if they are not known.
    """

    outcome: Outcome
    message: str
    result: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = each_text(asdict(self), one_line)
        return fields


def judge(
    state: JobState,
    submission: Submission,
    report: ApplicationReport | None = None,
    *,
    was_asked_to_leave: bool = False,
) -> DriverVerdict:
    """Return the verdict on a driver, from the job's end in the journal, or else from the cluster's report.

    Args:
        report: The cluster's report, or None if the cluster was not polled. It must be older than ``state``. Otherwise
            an end that was journaled in between would be missed.
        was_asked_to_leave: True if the driver was asked to leave, by a kill of its task or for another driver.
    """
    shown = f"Job {state.job_id} is {state.status or 'not begun yet'}"
    if state.damage:
        return DriverVerdict("failed", f"The journal of job {state.job_id} is damaged: {'; '.join(state.damage)}")
    result = full_result(state)
    if state.status is not None and has_journaled_end(state, submission):
        return _ended(state, state.status, report, was_asked_to_leave)
    if report is None or not _has_ended_in_cluster(report, submission):
        where = f". {report.message}" if report is not None else ""
        return DriverVerdict("wait", f"{shown}{where}", result)
    if is_overtaken(state, submission):
        return _overtaken(state, report, was_asked_to_leave)
    detail = "and no driver took the job" if state.epoch <= submission.after_epoch else "and the journal has no end"
    message = f"{shown}, but its driver is gone, {detail}. {report.message}"
    return DriverVerdict("left" if was_asked_to_leave else "retry", message, result)


def is_of_submission(state: JobState, submission: Submission) -> bool:
    """Return True if the driver of ``submission`` has the job, or was the last driver that had the job."""
    return state.epoch > submission.after_epoch and state.attempt == submission.attempt


def has_journaled_end(state: JobState, submission: Submission) -> bool:
    """Return True if the driver of ``submission`` has journaled how the job or its run ended."""
    return is_of_submission(state, submission) and state.status is not None and not state.status.is_alive


def is_overtaken(state: JobState, submission: Submission) -> bool:
    return state.epoch > submission.after_epoch and state.attempt != submission.attempt


def must_poll_cluster(state: JobState, submission: Submission) -> bool:
    """Return True if the driver was overtaken or journaled RESTARTING. Only the cluster shows if it still runs."""
    return is_overtaken(state, submission) or (
        has_journaled_end(state, submission) and state.status is JobStatus.RESTARTING
    )


def _has_ended_in_cluster(report: ApplicationReport, submission: Submission) -> bool:
    if report.state is ApplicationState.GONE:
        return submission.is_forgettable
    return report.state is ApplicationState.ENDED


def _ended(
    state: JobState, status: JobStatus, report: ApplicationReport | None, was_asked_to_leave: bool
) -> DriverVerdict:
    shown, result = f"Job {state.job_id} is {status}", full_result(state)
    is_running = report is not None and report.state is ApplicationState.RUNNING
    if status is JobStatus.RESTARTING and report is not None and is_running:
        return DriverVerdict("wait", f"{shown}, and its driver is about to leave. {report.message}", result)
    if was_asked_to_leave:
        return DriverVerdict("left", f"{shown}: its driver was asked to leave, and did", result)
    if status is JobStatus.FAILED:
        message = f"Job {state.job_id} failed for good: {cause_first(state.cause or 'unknown')}"
        return DriverVerdict("failed", message, result)
    if status.ended_well:
        return DriverVerdict("succeeded", shown, result)
    message = f"Job {state.job_id}: {cause_first(state.cause or 'its run failed')}. A retry resumes it"
    return DriverVerdict("retry", message, result)


def _overtaken(state: JobState, report: ApplicationReport, was_asked_to_leave: bool) -> DriverVerdict:
    """Judge a driver that lost its job to another driver.

    The verdict is ``failed`` if the other driver may run the job, because a retry would take the job back. A RESTARTING
    job has no driver, for example after a mere release (`ckpt release`).
    """
    result, owner = full_result(state), f"epoch {state.epoch}, attempt {state.attempt}"
    if was_asked_to_leave:
        return DriverVerdict("left", f"Job {state.job_id}: another driver has taken it over ({owner})", result)
    if state.status is JobStatus.FINISHED:
        return DriverVerdict("succeeded", f"Job {state.job_id} is FINISHED, by another driver ({owner})", result)
    if state.status is JobStatus.RESTARTING:
        return DriverVerdict("retry", f"Job {state.job_id} is RESTARTING ({owner}). {report.message}", result)
    return DriverVerdict("failed", f"Job {state.job_id}: another driver has taken it over ({owner})", result)
