"""Errors of a job whose subtasks run in workers of their own."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError


class LooksTooFarApartError(InvalidInputError):
    template = "{option} of {value:g} s cannot be used: give more than 0, and no more than {longest:g} s"


class TooSoonLostError(InvalidInputError):
    """Of the time after which a process that says nothing counts as lost."""

    template = (
        "{option} of {value:g} s cannot be used: a process shows every {beat:g} s that it lives, and the others look "
        "every {poll:g} s, so that one which is well would count as lost. Give {least:g} s or more"
    )


class NotPlannedError(InvalidInputError):
    template = (
        "job {job_id!r} is not prepared for workers (its status is {status}): `{plan}` does that, and so does "
        "`ckpt master` without --no-plan"
    )


class DeploymentOverError(OvertakenError):
    """Of a worker: somebody else runs the job now, or it is over."""

    template = "deployment {deployment} of job {job_id!r} is over: {why}"


class SubtaskTakenError(OvertakenError):
    """Of a worker: another one runs its subtask in the same deployment. The others, and the job, are as they were."""

    template = (
        "another worker has a subtask of this one, which leaves (deployment {deployment} of job {job_id!r}): {why}. "
        "Each subtask is for one worker: to run it here, end the other one first"
    )
