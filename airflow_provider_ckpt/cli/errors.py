"""Errors of the command line."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class BadAssignmentError(InvalidInputError):
    template = "{option} takes KEY=VALUE, and one of the values given has no key or no '='; write {option} key=value"


class UnknownJobError(InvalidInputError):
    template = "there is no job {job_id!r} under {root}. Jobs there: {known}"


class RequestOvertakenError(TransientError):
    template = (
        "job {job_id!r} was taken over by epoch {epoch} while epoch {asked} was asked to {kind}; a request is for "
        "one epoch only: ask again"
    )


class JobNotEndedError(TransientError):
    template = (
        "job {job_id!r} has not ended within {seconds:g} s of the {kind} request {request}, which the driver of "
        "epoch {epoch} {answer}; wait longer with --timeout, or look at the driver. If it is gone: the next run "
        "starts from the last completed checkpoint, and the request is not for it"
    )


class SparkMissingError(InvalidInputError):
    template = (
        "Spark cannot be started here: {problem}. Run `ckpt doctor`; "
        "pip install 'airflow-provider-ckpt[pyspark]' brings a matching set"
    )


class JobIdNeededError(InvalidInputError):
    template = (
        "the name of the job {reference} is {name!r}, which cannot be its id; give one with --job-id "
        "(letters, digits and _ . ~ -, at most 200)"
    )
