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
DRIVER_SILENT = Problem(
    "warning",
    "driver",
    "the driver has not written its overview in time, so rates and failing sinks are not known",
    "Check whether the driver lives, and whether it can write to the root",
)


def current_overview(
    root: Storage,
    job_id: str,
    read_state: Callable[[], JobState],
    state: JobState | None = None,
    clock: Callable[[], float] = time.time,
) -> JobOverview:
    """Return the overview of a job.

    Args:
        read_state: Reads the state of the job from its journal. It is not called if the driver wrote an overview in the
            last :data:`FRESH` seconds.
        state: The state, if the caller has read it. The result then agrees with it.

    Raises the errors of ``read_state``. An overview that cannot be read is a problem in the result.
    """
    stored, problems = None, list[Problem]()
    try:
        stored = read_overview(root, job_id)
    except CkptError as error:
        problems.append(Problem("warning", "overview", str(error), "The driver replaces it with its next overview"))
    now = clock()
    if state is None and stored is not None and stored.status == JobStatus.RUNNING and abs(now - stored.at) <= FRESH:
        return stored
    state = state or read_state()
    if state.is_held and not state.deployment and is_alive(state.worker) is False:
        problems.insert(0, DRIVER_GONE)
    if stored is None or stored.epoch != state.epoch:
        overview = job_overview(state, now)
    elif stored.status == state.status == JobStatus.RUNNING and now <= stored.valid_until and not problems:
        return stored
    else:
        overview = job_overview(state, now).with_measurements_of(stored)
        if state.status is JobStatus.RUNNING and not problems:
            problems.append(DRIVER_SILENT)
    return replace(overview, problems=(*problems, *overview.problems))
