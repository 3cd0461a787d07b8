"""Errors that are found before a query runs: in the user's functions, in sources, or in a change of the query."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class UnfitQueryError(InvalidInputError):
    """A query that cannot replace the running query. The running query continues."""

    template = "the new query of {vertex} cannot take the place of the one that runs: {problem}"


class ForeignCodeError(InvalidInputError):
    """Code that a request or a data file names. The driver does not run the code, because its author is unknown."""


class UnfitSourceError(InvalidInputError):
    """A source that cannot be read as it is declared. The author of the job must change it."""

    template = "source {uid!r} ({location}) has the option {key}={value}: {why}"


class UnreadableFileError(InvalidInputError):
    """A file or folder that Spark would leave out, misread or read twice. Its producer must rename or move it."""


class UnsupportedQueryError(InvalidInputError):
    """A function or query of the job that Spark cannot run, or that would output wrong rows."""


class FunctionFailedError(InvalidInputError):
    """An error that a user's function raised. The original error is the ``__cause__``."""

    template = "the function of operator {uid!r} ({location}) failed: {cause}"


class FunctionFailedForNowError(TransientError):
    """A failure of a user's function that may pass (:func:`~airflow_provider_ckpt.job.user_failure.may_pass`)."""

    template = f"{FunctionFailedError.template}. Another try calls it again"


class NothingToReadError(TransientError):
    """A source that has nothing to read when the job first starts. Its data may still come."""

    template = (
        "bounded source {uid!r} ({location}) has nothing to read: there is {nothing}. The job would finish without "
        "this input, and would never read later data. Another try checks again. If the source may be empty, "
        "declare it: @job.source(bounded=True, allow_empty=True)"
    )


class SchemaChangedError(InvalidInputError):
    template = (
        "the output of {vertex!r} changed between two tries, from {before} to {after}; "
        "run it under another job id, or change it back. If the job is the same, a new folder named column=value has "
        "added a column: the option recursiveFileLookup=true of the source leaves it out"
    )


class FrozenListLostError(TerminalError):
    """The loss of a bounded source's stored list of files or offsets. A new list could have other files or offsets."""

    template = (
        "{uri} {problem}. It lists the files or offsets that a bounded source reads, as they were when the job first "
        "started, and a new list could hold others. Nothing was deleted because of it. Put it back from a backup and "
        "run the job again, or run the job under another id, from its input"
    )


class EmptyFileError(TransientError):
    """An empty file of a format whose files are never empty. A retry reads the file again."""

    template = (
        "{subject} cannot read {file}: it is empty, and a {format} file never is. Spark would leave it out silently. "
        "Nothing of it was released. Another try reads the file again. If it stays empty, put the right file "
        "under its name: a {format} file without rows will do"
    )
