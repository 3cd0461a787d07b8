"""The overview of a job for its users: the last overview that the driver wrote, or else one made from the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.job_overview import JobOverview, Problem, read_overview
from airflow_provider_ckpt.status.overview_builder import job_overview
from airflow_provider_ckpt.storage.storage import Storage

FRESH = 15.0
"""Maximum age, in seconds, of an overview of a running job that is used without reading the journal."""
DRIVER_GONE = Problem(
    "error", "driver", "the driver is gone, and the journal still says RUNNING", "The next run resumes the job"
)


def current_overview(
    root: Storage, job_id: str, read_state: Callable[[], JobState], clock: Callable[[], float] = time.time
) -> JobOverview:
    """Return the overview of a job.

    A recent overview of a running job is returned as it is, with one request. Otherwise the journal is read, too.

    Raises the errors of ``read_state``. An overview that cannot be read is a problem in the result.
    """
    stored, unreadable = None, None
    try:
        stored = read_overview(root, job_id)
    except CkptError as error:
        unreadable = Problem("warning", "overview", str(error), "The driver replaces it with its next overview")
    if stored is not None and stored.status == JobStatus.RUNNING and 0 <= clock() - stored.at <= FRESH:
        return stored
    state = read_state()
    overview = job_overview(state, clock())
    if stored is not None and stored.epoch == state.epoch:
        overview = overview.with_measurements_of(stored)
    more = [] if unreadable is None else [unreadable]
    if state.is_held and not state.deployment and is_alive(state.worker) is False:
        more.insert(0, DRIVER_GONE)
    return replace(overview, problems=(*more, *overview.problems))
