"""Errors of the command line.

The output for an error: the problem, the next step, and the user's traceback if the user's code failed.
"""

from __future__ import annotations

import sys

from airflow_provider_ckpt.errors import CkptError, InvalidInputError
from airflow_provider_ckpt.job.errors import JobReferenceError
from airflow_provider_ckpt.job.loading.users_traceback import users_traceback
from airflow_provider_ckpt.printable import printable
from airflow_provider_ckpt.storage.redaction import redact_text


class BadAssignmentError(InvalidInputError):
    template = "{option} takes KEY=VALUE, and one of the values given has no key or no '='; write {option} key=value"


class BadChangeError(InvalidInputError):
    """A change that cannot be read. Data: given, known."""

    template = (
        "{given!r} is no change; give OPERATOR.SETTING=VALUE, such as clean.trigger_interval=2s, with a setting of "
        "{known}"
    )


class DeletionNotConfirmedError(InvalidInputError):
    """A deletion without a terminal and without ``--yes``. Data: job_id, status, root."""

    template = (
        "job {job_id!r} under {root} is {status} and is not deleted: its id could never run again under that root. "
        "Give --yes to delete it, or run this command in a terminal, where it asks"
    )


class BadScaleError(InvalidInputError):
    """A rescale that cannot be read. Data: given."""

    template = "{given!r} is no rescale; give SOURCE=N, such as history=8"


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


def print_refusal(error: CkptError) -> None:
    shown = users_traceback(error) if isinstance(error, JobReferenceError) else None
    print(printable(shown or ""), end="", file=sys.stderr)
    print(f"ckpt: error: {redact_text(str(error))}", file=sys.stderr)
