"""Errors of connections and of tasks' arguments."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class NoCheckpointRootError(InvalidInputError):
    template = (
        "There is no checkpoint root: the Airflow connection {conn_id!r} does not exist or names no root. "
        "Create it with type ckpt and the root URI as its host (s3://bucket/prefix, /shared/folder), "
        "or give root= to the Airflow operator."
    )


class InvalidCkptConnectionError(InvalidInputError):
    template = "The Airflow connection {conn_id!r} (type ckpt) cannot be used: {problem}."


class InvalidTaskArgumentError(InvalidInputError):
    template = "{argument}={value!r} cannot be used: {problem}."


class ReconfigurationFailedError(RequestFailedError, TransientError):
    """A change that failed, so that the job continues unchanged. Data: job_id, outcome."""

    reason = RequestFailure.RECONFIGURATION_FAILED
    template = "job {job_id!r} was not changed, and continues as before: {outcome}"
