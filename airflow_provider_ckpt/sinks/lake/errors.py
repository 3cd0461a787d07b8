"""Errors of sinks that release to tables."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class MissingPackageError(InvalidInputError):
    """A sink's library is not installed. Data: sink, package, extra."""

    template = (
        "{sink} needs the package {package}, which is not installed here: pip install 'airflow-provider-ckpt[{extra}]' "
        "on every machine that runs or releases the job"
    )


class TableRefusedError(InvalidInputError):
    """A table cannot be written to, or rows do not fit it. Nothing was staged."""

    template = "Sink {sink} of job {job!r} cannot write to table {uri}: {problem}"


class TableDriftedError(TerminalError):
    """The table was changed after the rows were staged, and they no longer fit it."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released to table {uri}: {problem}. The table "
        "was changed after the rows had been staged. Nothing was lost: they stay staged. Change the table back and "
        "resume with --resume-failed"
    )


class TableLostCommitsError(TerminalError):
    """The table knows fewer releases than a log or a handle records."""

    template = (
        "Sink {sink} of job {job!r}: table {uri} contains {applied} of its releases, and {who} knows {known}. The "
        "table lost commits: it was restored from an older copy, or deleted and made again. Nothing was released "
        "because of it. Bring the newer table back and resume with --resume-failed, or run the job under another id, "
        "from its input"
    )


class TableReplacedError(TerminalError):
    """Another table is there now, under the old name."""

    template = (
        "Sink {sink} of job {job!r}: table {uri} is another one than {who} was made for (its id is {found}, not "
        "{expected}): it was deleted and made again. Nothing was released to it. Bring the old table back and resume "
        "with --resume-failed, or run the job under another id, from its input"
    )


class TableGoneError(TerminalError):
    template = (
        "Sink {sink} of job {job!r}: table {uri} no longer exists, and {who} has seen it. Nothing was released. "
        "Bring it back and resume with --resume-failed, or run the job under another id, from its input"
    )


class TableSupersededError(TerminalError):
    """A job with ``overwrite`` has replaced the rows of this one. More rows of this job would mix both outputs."""

    template = (
        "Sink {sink} of job {job!r} is superseded at table {uri}: since it began there, a job with mode='overwrite' "
        "has replaced the table's rows ({found} times in all, {expected} when this job began). This job releases "
        "nothing further. If its rows are the wanted ones, run it again under a new job id"
    )


class LeftoverIntentError(InvalidInputError):
    """A job of the same id was deleted in the middle of a release, and left its intent."""

    template = (
        "Sink {sink} of job {job!r} cannot write to table {uri}: a job of this id has begun a release there "
        "(checkpoint {checkpoint}) that never got into the table. Give the job another id"
    )


class TableBusyError(TransientError):
    """Others commit so often that a release was never first."""

    template = (
        "Sink {sink} of job {job!r} could not commit to table {uri} in {tries} tries, because others committed each "
        "time; nothing was lost, and the release is tried again ({reason})"
    )


class TableUnreachableError(TransientError):
    """The table's library reported an error. The commit may or may not have taken effect."""

    template = "table {uri} could not be {verb}: {reason}"


class StatisticsMissingError(TerminalError):
    """A staged file lacks statistics that the table needs."""

    template = "The staged file {uri} cannot be used: {problem}; nothing was published"
