"""Errors of looking at a job from outside, and of asking something of it."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class JobNotRunningError(InvalidInputError):
    """Nobody would answer a request: no driver has the job. ``data``: job_id, kind, status, advice."""

    template = "Job {job_id!r} cannot be asked to {kind}: its status is {status}, no driver would answer. {advice}."


class NotRescalableError(InvalidInputError):
    """What is asked for can never be done. ``data``: job_id, uid, parallelism, known (what can be rescaled)."""

    template = (
        "job {job_id!r}: {uid!r} cannot be read by {parallelism} subtasks. While a job runs its sources with splits "
        "can be rescaled, to 1 or more: {known}"
    )


class NotReconfiguredError(TransientError):
    """A request was not served in time. ``data``: job_id, request, seconds."""

    template = (
        "job {job_id!r} does not run with what was asked for yet, {seconds:g} s after the request {request}; wait "
        "longer (`ckpt`: --timeout), or look at the driver"
    )


class NotUpgradableError(InvalidInputError):
    """What is asked for can never be done. ``data``: job_id, problem."""

    template = (
        "job {job_id!r} cannot go on as another version while it runs: {problem}. Stop it, and run the new version: "
        "docs/changes.md says what may be another one"
    )


class NotUpgradedError(TransientError):
    """A request was not served in time. ``data``: job_id, request, seconds."""

    template = (
        "job {job_id!r} does not run as the other version yet, {seconds:g} s after the request {request}; wait longer "
        "(`ckpt`: --timeout), or look at the driver"
    )


class NoSuchPartitionError(InvalidInputError):
    """``data``: job_id, name, known (the subtasks that have one)."""

    template = (
        "job {job_id!r} has no result partition {name!r}: only subtasks have one that others read. It has: {known}"
    )


class NotRescaledError(TransientError):
    """A request was not served in time. ``data``: job_id, uid, parallelism, request, seconds."""

    template = (
        "{uid!r} of job {job_id!r} is not read by {parallelism} yet, {seconds:g} s after the request {request}; wait "
        "longer (`ckpt`: --timeout), or look at the driver"
    )


class NoSuchJobError(InvalidInputError):
    """Nothing was ever journaled for the job. ``data``: job_id, root, known (the jobs that are there)."""

    template = "there is no job {job_id!r} under {root}: nothing was ever journaled for it. Jobs there: {known}"


class RequestOvertakenError(TransientError):
    """The driver that was asked is over, and did not answer. ``data``: job_id, kind, asked and epoch (its number, and
    that of the driver that has the job now)."""

    template = (
        "job {job_id!r} was taken over by epoch {epoch} while epoch {asked} was asked to {kind}; a request is for "
        "one epoch only: ask again"
    )


class JobWaitTimeoutError(TransientError):
    """What was waited for has not come in time. ``data``: job_id, status, seconds."""

    template = (
        "job {job_id!r} is {status}, and what was waited for has not come within {seconds:g} s; wait longer, or look "
        "whether its driver is alive"
    )


class JobNotEndedError(TransientError):
    """A request was not served in time. ``data``: job_id, kind, request, epoch, answer, seconds."""

    template = (
        "job {job_id!r} has not ended within {seconds:g} s of the {kind} request {request}, which the driver of "
        "epoch {epoch} {answer}; wait longer (`ckpt`: --timeout), or look at the driver. If it is gone: the next run "
        "starts from the last completed checkpoint, and the request is not for it"
    )


class TimersWaitError(InvalidInputError):
    """A drain would discard state that waits for timers. Data: job_id, vertices."""

    template = (
        "a drain of job {job_id!r} discards state that waits for timers of processing time, because they fire only "
        "while the query runs: {vertices}. Nothing was asked of the driver. Let the timers fire, or stop the job to "
        "keep the state for the next run. To discard the state, add --discard-timers (in Python "
        "discard_timers=True)"
    )
