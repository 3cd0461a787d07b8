"""Errors in the user's job, its options and its parameters."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class InvalidJobError(InvalidInputError):
    """A job that cannot be run as it is written."""


class BadOperatorOptionError(InvalidJobError):
    """An argument of an operator with a value that is not possible."""

    template = "{operator!r} ({location}): {option}={value!r} is not possible; expected {expected}."


class BadOptionError(InvalidInputError):
    """A bad option or parameter of a run, or options that contradict each other."""

    template = "option {option}={value!r} is not possible; expected {expected}."


class JobReferenceError(InvalidInputError):
    """A job reference ("pipelines/orders.py:job", "package.module:job") that leads to no job."""

    template = "job reference {reference!r} {problem}. {hint}"


class JobNotFoundError(JobReferenceError):
    """A job reference that names a file, module or attribute that does not exist."""


class JobImportError(JobReferenceError):
    """An error that the user's code raised while it was loaded. The ``__cause__`` is that error."""

    template = "job reference {reference!r}: loading it failed at {location}: {error}"


class DefinitionChangedError(InvalidInputError):
    """A job whose definition has changed since it began."""

    template = (
        "{subject} has another {field} than when the job began: {before!r} became {after!r}{more}. {why}; change it "
        "back, or run it under another job id"
    )


class UnfitLogicError(InvalidJobError):
    """A function from another version of the job that does not fit its operator."""

    template = "{uid!r} cannot have its function from {reference}: that {problem}"


class SplitsFailedError(InvalidJobError):
    """A failure of the user's function that returns splits. The ``__cause__`` is the function's own error."""

    template = "{operator!r} ({location}): the function that gives its splits failed: {cause}"


class SplitsFailedForNowError(TransientError):
    """A failure, perhaps temporary, of the user's function that returns splits. See :func:`~.user_failure.may_pass`."""

    template = f"{SplitsFailedError.template}. Another try calls it again"


class NotReconfigurableError(RequestFailedError, InvalidInputError):
    """A request for a change that no running job can have, whatever its state."""

    reason = RequestFailure.NOT_RECONFIGURABLE
    template = "{uid}: {problem}"


class BadControllerError(InvalidJobError):
    """A controller whose type, arguments or operators are invalid."""

    template = "controller {controller}: {problem}"
