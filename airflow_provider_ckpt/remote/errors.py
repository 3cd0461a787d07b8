"""Errors of a job whose subtasks run in workers of their own."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError


class NotPlannedError(InvalidInputError):
    template = (
        "job {job_id!r} is not prepared for workers (its status is {status}): `ckpt plan` does that, and a `ckpt "
        "master` without --no-plan begins with it"
    )


class DeploymentOverError(OvertakenError):
    """Of a worker: somebody else runs the job now, or it is over."""

    template = "deployment {deployment} of job {job_id!r} is over: {why}"
