"""Errors of the job journal and of requests to a job."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError, TerminalError, TransientError


class RequestTooLargeError(InvalidInputError):
    template = (
        "the request has {size} bytes, and a driver reads {most} of one: change fewer operators at a time, or name "
        "files by shorter paths"
    )


class UnknownEventError(TerminalError):
    """Error for an event that only a newer version of this library can read. ``where`` names the journal or entry."""

    template = (
        "{where} holds an event {what}, written by release {written_by}, which this release ({release}) "
        "does not know; upgrade airflow_provider_ckpt to {written_by} or newer"
    )


class JobDeletedError(InvalidInputError):
    """Error for a job that is deleted, or whose deletion has begun.

    ``data``: job_id, status (DELETING or DELETED), at (when the deletion began, in UTC), was (the status before).
    """

    template = (
        "job {job_id!r} is {status} since {at}, and was {was} before: its record of read input is gone, but its "
        "released output is still in the targets of its sinks. A new start would release that output once more; use "
        "another job id (a cleared Airflow task has one with on_clear='restart')"
    )


class FencedError(OvertakenError):
    """Error if a later driver owns the job (R3, R8). The caller must stop at once, and write and release nothing."""

    template = (
        "job {job_id} was taken over: epoch {epoch} is owned by attempt {attempt} ({worker}), "
        "this driver has epoch {own_epoch} and stops"
    )


class CorruptJournalError(TerminalError):
    template = "the journal of job {job_id} is damaged and the job is not started: {reason}"


class JournalUnwritableError(TransientError):
    """Error for a failed write, after which the journal refuses all writes. The next driver finds out
    whether the storage has the entry."""

    template = "the journal of job {job_id} cannot be written: {reason}; this attempt stops"
