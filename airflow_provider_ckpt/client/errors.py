"""Errors of a client that reads a job's state or makes requests to its driver."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class NoSuchJobError(InvalidInputError):
    """A job without any journal entry. ``data``: job_id, root, known (the jobs under the root)."""

    template = "there is no job {job_id!r} under {root}: nothing was ever journaled for it. Jobs there: {known}"


class JobWaitTimeoutError(RequestFailedError, TransientError):
    """A wait that ended because its condition was not met in time. ``data``: job_id, status, seconds."""

    reason = RequestFailure.TIMED_OUT
    template = (
        "job {job_id!r} is {status}, and the awaited condition was not met within {seconds:g} s; wait longer, or "
        "check that its driver is alive"
    )
