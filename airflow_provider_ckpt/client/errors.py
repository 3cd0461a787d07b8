"""Errors of a client that reads a job's state or makes requests to its driver."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class JobNotRunningError(RequestFailedError, InvalidInputError):
    """A request to a job that no driver runs, so that the request would stay unanswered.

    ``data``: job_id, kind, status, advice.
    """

    reason = RequestFailure.NOT_RUNNING
    template = "Job {job_id!r} cannot be asked to {kind}: its status is {status}, no driver would answer. {advice}."


class NotRescalableError(RequestFailedError, InvalidInputError):
    """A rescale that is impossible at any time. ``data``: job_id, uid, parallelism, known (sources that can be
    rescaled).
    """

    reason = RequestFailure.NOT_RESCALABLE
    template = (
        "job {job_id!r}: {uid!r} cannot be read by {parallelism} subtasks. While a job runs its sources with splits "
        "can be rescaled, to 1 or more: {known}"
    )


class NotReconfiguredError(RequestFailedError, TransientError):
    """A reconfiguration that was not applied in time. ``data``: job_id, request, seconds."""

    reason = RequestFailure.NOT_RECONFIGURED
    template = (
        "job {job_id!r} has not applied request {request} after {seconds:g} s; wait "
        "longer (`ckpt`: --timeout), or check the driver"
    )


class NotUpgradableError(RequestFailedError, InvalidInputError):
    """An upgrade that is impossible while the job runs. ``data``: job_id, problem."""

    reason = RequestFailure.NOT_UPGRADABLE
    template = (
        "job {job_id!r} cannot continue as another version while it runs: {problem}. Stop it, and run the new version: "
        "docs/changes.md lists what may differ"
    )


class NotUpgradedError(RequestFailedError, TransientError):
    """An upgrade that was not applied in time. ``data``: job_id, request, seconds."""

    reason = RequestFailure.NOT_UPGRADED
    template = (
        "job {job_id!r} does not run as the other version {seconds:g} s after request {request}; wait longer "
        "(`ckpt`: --timeout), or check the driver"
    )


class NotRescaledError(RequestFailedError, TransientError):
    """A rescale that was not applied in time. ``data``: job_id, uid, parallelism, request, seconds."""

    reason = RequestFailure.NOT_RESCALED
    template = (
        "{uid!r} of job {job_id!r} is not read by {parallelism} subtasks {seconds:g} s after request {request}; wait "
        "longer (`ckpt`: --timeout), or check the driver"
    )


class NoSuchJobError(InvalidInputError):
    """A job without any journal entry. ``data``: job_id, root, known (jobs under the root)."""

    template = "there is no job {job_id!r} under {root}: nothing was ever journaled for it. Jobs there: {known}"


class RequestOvertakenError(RequestFailedError, TransientError):
    """A request whose driver lost the job before it answered.

    ``data``: job_id, kind, asked (epoch of that driver), epoch (of the current driver).
    """

    reason = RequestFailure.OVERTAKEN
    template = (
        "job {job_id!r} was taken over by epoch {epoch} while epoch {asked} was asked to {kind}; a request is for "
        "one epoch only: ask again"
    )


class JobWaitTimeoutError(RequestFailedError, TransientError):
    """A condition that did not become true in time. ``data``: job_id, status, seconds."""

    reason = RequestFailure.TIMED_OUT
    template = (
        "job {job_id!r} is {status}, and the awaited condition was not met within {seconds:g} s; wait longer, or "
        "check that its driver is alive"
    )


class JobNotEndedError(RequestFailedError, TransientError):
    """A stop or drain that did not end the job in time. ``data``: job_id, kind, request, epoch, answer, seconds."""

    reason = RequestFailure.NOT_ENDED
    template = (
        "job {job_id!r} has not ended within {seconds:g} s of the {kind} request {request}, which the driver of "
        "epoch {epoch} {answer}; wait longer (`ckpt`: --timeout), or check the driver. If it is gone, the next run "
        "starts from the last completed checkpoint and ignores the request"
    )


class TimersWaitError(RequestFailedError, InvalidInputError):
    """A drain that would discard state that waits for timers. ``data``: job_id, vertices."""

    reason = RequestFailure.TIMERS_WAIT
    template = (
        "a drain of job {job_id!r} discards state that waits for timers of processing time, because they fire only "
        "while the query runs: {vertices}. The driver got no request. Let the timers fire, or stop the job to "
        "keep the state for the next run. To discard the state, add --discard-timers (in Python "
        "discard_timers=True)"
    )
