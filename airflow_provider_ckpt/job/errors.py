"""Errors in the user's job, its options and its parameters."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class InvalidJobError(InvalidInputError):
    """A job that cannot be run as it is written."""


class IllegalUidError(InvalidJobError):
    template = (
        "operator uid {uid!r} ({location}) is not usable: it must be 1 to {longest} letters (A-Z, a-z), "
        "digits or "
        'underscores, because it names a Spark source and a folder. Give the operator one with uid="...".'
    )


class DuplicateUidError(InvalidJobError):
    template = (
        "uid {uid!r} ({location}) is taken by the {other_kind} {other!r} ({other_location}). Uids of "
        "sources, "
        "transforms and sinks of a job must differ in more than case: give one of the two another uid."
    )


class EdgeNameTakenError(InvalidJobError):
    template = (
        "operator uid {uid!r} ({location}) is also the name of the edge {producer} -> {consumer}. "
        "Give the operator another uid (best without a double underscore)."
    )


class BadInputsError(InvalidJobError):
    template = (
        "{operator!r} ({location}): {value} is no input. Give operators of this job (or their uids) as "
        "inputs=[a, b], "
        'or by parameter name as inputs={{"orders": [a, b], "customers": c}}.'
    )


class MissingInputsError(InvalidJobError):
    template = "{operator!r} ({location}) has no input. Say what it reads: {example}."


class DuplicateInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}) has {input!r} as an input twice, but a Spark query can name a source "
        "only once. "
        "Put a transform between that returns its input unchanged, and use that as the second input."
    )


class ForeignInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}): its input {input!r} ({input_location}) is an operator of another Job. "
        "An operator reads operators of its own job only: define both with the same Job object."
    )


class UnknownInputError(InvalidJobError):
    template = "{operator!r} ({location}): the job has no operator {input!r} to read from.{suggestion} It has: {known}."


class SinkAsInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}): its input {input!r} ({input_location}) is a sink, and nothing comes out "
        "of a "
        "sink. Read the sink's own input, {instead!r}."
    )


class CyclicJobError(InvalidJobError):
    template = "the operators {cycle} feed each other in a circle ({location}). Remove one of these inputs."


class BadSignatureError(InvalidJobError):
    template = "{operator!r} ({location}): {function}{signature} does not fit: {problem}. It is called as {call}."


class BadOperatorOptionError(InvalidJobError):
    template = "{operator!r} ({location}): {option}={value!r} is not possible; expected {expected}."


class NoQuarantineError(InvalidJobError):
    """A source with on_malformed='quarantine' and without a sink for its malformed rows. Data: operator, location."""

    template = (
        "source {operator!r} ({location}) has on_malformed='quarantine', and no sink gets its malformed rows. "
        'Write job.quarantine("malformed", {operator}, FileSink("/lake/malformed"))'
    )


class NotQuarantinedError(InvalidJobError):
    """A quarantine for an operator that gives it no malformed rows. Data: operator, location, input."""

    template = (
        "quarantine {operator!r} ({location}) is not possible for {input!r}: it takes the malformed rows of a source "
        "with on_malformed='quarantine', which has no other quarantine"
    )


class NotASinkError(InvalidJobError):
    template = (
        "sink {operator!r} ({location}): {value} is no sink. Give a sink object, "
        'such as FileSink("/lake/orders"): an object of a class that inherits '
        "airflow_provider_ckpt.Sink."
    )


class NestedSinksError(InvalidJobError):
    """Two sinks of which one writes inside the folder of the other.

    Data: inner, inner_location, inner_folder, outer, outer_location, outer_folder.
    """

    template = (
        "sink {inner!r} ({inner_location}) writes to {inner_folder}, which is inside {outer_folder}, the folder of "
        "sink {outer!r} ({outer_location}): a reader of that folder would read the rows of both, or fail. Give each a "
        "separate folder, with neither inside the other."
    )


class SharedFolderError(InvalidJobError):
    """Two sinks that write to one folder in different ways. Data: one, one_location, other, other_location, folder,
    differ."""

    template = (
        "sinks {one!r} ({one_location}) and {other!r} ({other_location}) write to one folder, {folder}, and differ in "
        "{differ}, so the folder could not be read as one table. Give each a folder of its own, or the same settings."
    )


class SinkTransactionError(InvalidJobError):
    """A sink that cannot join its transaction. Data: operator, location, transaction, problem."""

    template = (
        "sink {operator!r} ({location}) cannot be released in transaction {transaction!r}: {problem}. Sinks that share "
        "a transaction must be tables of one database and connection; leave transaction= out for a single sink."
    )


class IncompleteJobError(InvalidJobError):
    template = "job {job!r} has no {missing}. Add one with {example}."


class UnusedOperatorError(InvalidJobError):
    template = (
        "{operator!r} ({location}) leads to no sink, so its result would be lost. "
        "Give it a sink, use it as an input, keep its result (persist=True), or remove it."
    )


class UnboundedPersistError(InvalidJobError):
    template = (
        "{operator!r} ({location}) has persist=True and never ends: its result would be kept for ever and never be "
        "complete. Give it a sink, or declare its sources with bounded=True if they end."
    )


class UnboundedBatchError(InvalidJobError):
    template = (
        "mode 'batch' needs sources with an end, and job {job!r} has others: {sources}. "
        "Use mode 'auto' or 'streaming', or declare them with bounded=True."
    )


class NoRunError(InvalidJobError):
    """Access to ``job.root`` outside of a run. Data: job, location."""

    template = (
        "job.root of job {job!r} is read at {location}, and no driver runs the job there: read it in a function of a "
        "source, a transform or splits"
    )


class BadParamError(InvalidJobError):
    template = "job {job!r} ({location}): the {what} of a parameter is not possible; expected {expected}."


class MissingParamError(InvalidJobError):
    template = (
        "job {job!r} ({location}) needs the parameter {name!r}, which this run does not give.{suggestion} "
        'Given: {given}. Give it with --param {name}=VALUE or job_params={{"{name}": "VALUE"}}, or write a default: '
        'job.param("{name}", default="VALUE").'
    )


class LateParamError(InvalidJobError):
    template = (
        "job {job!r} ({location}) reads the parameter {name!r} inside a function, and did not when its "
        'file was read. Write NAME = job.param("{name}") at the top level of the file and use NAME. '
        "Parameters that are read there: {known}."
    )


class UnknownParamError(InvalidInputError):
    template = "the job {reference!r} has no parameter {name!r}.{suggestion} It reads: {known}."


class StaleJobError(InvalidInputError):
    """A job of a module that another module had imported before, with the parameters of that time."""

    template = (
        "the job {reference!r} was made by a module that was imported earlier in this process, so the parameters "
        "of this run would not reach it. Define the job in the file or module that the reference names."
    )


class UnknownVertexError(InvalidJobError):
    template = "parallelism is given for {vertex!r}, which is the output operator of no vertex. Vertices: {known}."


class UnknownOptionError(InvalidInputError):
    template = "{where} has no option {option!r}.{suggestion} It has: {known}."


class BadOptionError(InvalidInputError):
    template = "option {option}={value!r} is not possible; expected {expected}."


class ConflictingOptionsError(InvalidInputError):
    template = "the options {options} exclude each other: a run ends in one way. Give one of them."


class BadDurationError(InvalidInputError):
    template = (
        '{option}: {value!r} is no duration. Write a number of seconds (30, 0.5), a text such as "500ms", '
        '"30s", '
        '"1m30s", "2h", "1 day", or a timedelta; not negative, and a hundred years at the most.'
    )


class BadSizeError(InvalidInputError):
    template = (
        '{option}: {value!r} is no size. Write a whole number of bytes (67108864) or a text such as "512k", '
        '"64m", '
        '"1.5g" (powers of 1024); not negative, and less than 8192p.'
    )


class BadFlinkDurationError(InvalidInputError):
    template = (
        "{option}: {value!r} is no duration as Flink has it. Write a whole number and a unit (ns, µs, ms, s, min, h, "
        'd), such as "30 s" or "3 min"; a number alone is milliseconds.'
    )


class BadFlinkSizeError(InvalidInputError):
    template = (
        "{option}: {value!r} is no size as Flink has it. Write a whole number and a unit (b, kb, mb, gb, tb: powers of "
        '1024), such as "1 mb"; a number alone is bytes.'
    )


class OptionGivenTwiceError(InvalidInputError):
    template = "{first}={value!r} and {second}={other!r} set one option to different values. Give one of them."


class BadStorageOptionsError(InvalidInputError):
    """Storage options that cannot be read. The error never holds them, because they may be secret."""

    template = "the environment variable {variable} {problem}. It must be one JSON object of storage options."


class UnsupportedOptionsFormatError(InvalidInputError):
    template = (
        "run options of format {format!r:.80}, version {version!r:.80} cannot be read here (known: {known!r} up to "
        "version "
        "{newest}). Use the same version of airflow-provider-ckpt on both sides."
    )


class JobReferenceError(InvalidInputError):
    """A reference of a job ("pipelines/orders.py:job", "package.module:job") that leads to no job."""

    template = "job reference {reference!r} {problem}. {hint}"


class JobNotFoundError(JobReferenceError):
    """A reference to a file, module or attribute that does not exist."""


class JobImportError(JobReferenceError):
    """An error of the user's code while it was loaded. The ``__cause__`` is that error."""

    template = "job reference {reference!r}: loading it failed at {location}: {error}"


class DefinitionChangedError(InvalidInputError):
    """A job whose definition has changed. Data: subject, field, before, after, why, more."""

    template = (
        "{subject} has another {field} than when the job began: {before!r} became {after!r}{more}. {why}; change it "
        "back, or run it under another job id"
    )


class DeadlinePassedError(InvalidInputError):
    """A first run whose end has passed. Data: job_id, option, at, now, reader."""

    template = (
        "{option}={at} has passed (it is {now} now), and job {job_id!r} has not run: {reader} would read nothing. "
        "Give a time in the future"
    )


class UnfitLogicError(InvalidJobError):
    """Another function for an operator, from a change while the job ran, that does not fit the operator."""

    template = "{uid!r} cannot have its function from {reference}: that {problem}"


class BadSplitsError(InvalidJobError):
    template = "{operator!r} ({location}): the splits {problem}."


class SplitsFailedError(InvalidJobError):
    """A failure of the user's function for splits. The ``__cause__`` has its traceback."""

    template = "{operator!r} ({location}): the function that gives its splits failed: {cause}"


class SplitsFailedForNowError(TransientError):
    """A failure of the user's function for splits that may pass, see :func:`~.user_failure.may_pass`."""

    template = f"{SplitsFailedError.template}. Another try calls it again"


class NotReconfigurableError(RequestFailedError, InvalidInputError):
    """A request for a change that is never possible. Data: uid, problem."""

    reason = RequestFailure.NOT_RECONFIGURABLE
    template = "{uid}: {problem}"


class BadControllerError(InvalidJobError):
    """A bad controller of a job. Data: controller, problem."""

    template = "controller {controller}: {problem}"
