"""Errors of connections and of arguments of tasks."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


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


class NotDeferrableError(InvalidInputError):
    template = (
        "deferrable=True cannot be used with the Spark connection {conn_id!r} (master {master}, deploy mode "
        "{deploy_mode}): {problem}."
    )


class ReconfigurationFailedError(TransientError):
    """The job goes on as it was. ``data``: job_id, outcome."""

    template = "job {job_id!r} was not changed, and goes on as it was: {outcome}"
