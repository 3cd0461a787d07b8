"""Errors of jobs whose subtasks run in separate workers."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError


class NotPlannedError(InvalidInputError):
    template = (
        "job {job_id!r} is not prepared for workers (its status is {status}): `{plan}` does that, and so does "
        "`ckpt master` without --no-plan"
    )


class DeploymentOverError(OvertakenError):
    """A worker's deployment is over, because another process runs the job or the job is over."""

    template = "deployment {deployment} of job {job_id!r} is over: {why}"


class SubtaskTakenError(OvertakenError):
    """Another worker of the same deployment runs a subtask of this worker.

    The subtasks of other workers are unaffected.
    """

    template = (
        "another worker runs a subtask of this one, which leaves (deployment {deployment} of job {job_id!r}): {why}. "
        "Run each subtask in one worker only: to run it here, end the other worker first"
    )
