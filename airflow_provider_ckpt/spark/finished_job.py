"""A run of a job that has FINISHED already. It needs no Spark."""

from __future__ import annotations

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster.aftermath import see_to
from airflow_provider_ckpt.jobmaster.collector import clean_up
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.report.status_line import LineKind
from airflow_provider_ckpt.report.status_reporter import OnStatus, StatusReporter
from airflow_provider_ckpt.sinks.binding import bind_sinks
from airflow_provider_ckpt.spark.query.known_late import not_looked_at
from airflow_provider_ckpt.spark.query.resumable import check_finished_job
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage


def finish_again(
    job: Job, options: RunOptions, root: Storage, location: Location, on_status: OnStatus, state: JobState
) -> Outcome:
    """Report that the job has finished, and clean up. The driver that finished it may have died before it cleaned up.

    Raises the errors of :func:`check_finished_job`.
    """
    check_finished_job(state, job, options)
    reporter = StatusReporter(on_status, options.job_id, None, location.for_display())

    def clean() -> None:
        if state.plan is not None:
            clean_up(root, options.job_id, state.plan.graph, bind_sinks(job, options.job_id, location))

    def look_back() -> None:
        for uid in not_looked_at(root, state):
            where = root.full_uri(f"{state.job_id}/{state.frozen[uid].path}")
            told = (
                f"no run has checked whether files came late to {uid}; the files that it had to read are listed in "
                f"{where}"
            )
            reporter.say(LineKind.WARNING, told, state)

    see_to(reporter, state, "checking whether late files were reported", look_back)
    see_to(reporter, state, "deleting what the job no longer needs", clean)
    reporter.say(LineKind.FINISHED, f"job {options.job_id} has FINISHED already; nothing runs again", state)
    return Outcome(JobStatus.FINISHED)
