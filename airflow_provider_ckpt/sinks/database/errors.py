"""Errors of sinks that release in one transaction of a database. They show no values of rows."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError
from airflow_provider_ckpt.sinks.errors import OutputLostError


class DriverPackageMissingError(InvalidInputError):
    """The driver's package is not installed. Data: sink, package, extra."""

    template = (
        "{sink} needs the package {package!r}, which is not installed here. Install it where drivers and executors "
        "run: pip install 'airflow-provider-ckpt[{extra}]'"
    )


class TableMismatchError(InvalidInputError):
    """Rows and table do not fit, or the table cannot keep the sink's promises.

    Data: sink, job, table, problem, advice.
    """

    template = "sink {sink!r} of job {job!r} cannot write to table {table}: {problem}. {advice}."


class TableLostError(OutputLostError):
    """The table is not there, and the sink has released rows to it. Data: sink, job, table, ledger, released."""

    template = (
        "sink {sink!r} of job {job!r}: there is no table {table}, and its ledger {ledger} says that checkpoint "
        "{released} was released to it. Was the table dropped or renamed, or may the user of the connection not see "
        "it? A new table would lack the rows that were released. Bring the table back, or run the job under another "
        "id. To continue without these rows, create the table yourself"
    )


class DatabaseUnfitError(InvalidInputError):
    """The sink cannot work with this server. Data: sink, job, problem."""

    template = "sink {sink!r} of job {job!r} cannot use its database: {problem}."


class RowsRefusedError(TerminalError):
    """The database refused rows while they were staged. Data: sink, job, table, what."""

    template = (
        "sink {sink!r} of job {job!r}: table {table} does not take rows of this batch: {what}. Nothing of the batch "
        "is acknowledged or visible, and none of it is lost. Correct the rows (a function of the job) or the table, "
        "and resume with --resume-failed, or by clearing the task."
    )


class ReleaseRefusedError(TerminalError):
    """The database refused a release; its transaction was rolled back. Data: sink, job, checkpoint, table, what."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released to table {table}: {what}. Nothing of "
        "it is visible, and its rows stay staged. Correct the cause in the database, and resume with --resume-failed."
    )


class StagedRowsMissingError(TerminalError):
    """Fewer rows reached the table than were staged. Data: sink, job, checkpoint, handle, expected, found, cause."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: of batch {handle} {expected} rows "
        "were staged, and {found} reached the table. {cause}, and resume with --resume-failed, or run the job under "
        "another id, from its input. Nothing of the checkpoint was released."
    )


class LedgerLostError(TerminalError):
    """The record of releases is gone, or older than a staged batch expects. Releasing now could repeat rows.

    Data: sink, job, ledger, problem.
    """

    template = (
        "The ledger {ledger} of sink {sink} of job {job!r} is not the one that the job has used: {problem}. Was the "
        "schema dropped, the database restored from a backup, or does the connection lead to another one? Nothing was "
        "released because of it. Bring the ledger back and resume with --resume-failed, or run the job under another "
        "id, into another table."
    )


class LedgerVersionError(TerminalError):
    """The ledger has a version that this package does not know. Data: ledger, found, known."""

    template = (
        "The ledger {ledger} has version {found}, and this version of airflow-provider-ckpt knows {known}: upgrade it"
    )


class SinkReturnedElsewhereError(InvalidInputError):
    """The job names a sink again that it had left out, with another table or mode.

    Data: sink, job, table, mode, released, earlier, earlier_mode.
    """

    template = (
        "sink {sink!r} of job {job!r} shall release to table {table} (mode {mode!r}), but has released up to "
        "checkpoint {released} to {earlier} (mode {earlier_mode!r}) before the job left it out. Its ledger knows one "
        "table for each sink: give the new one another uid, or name {earlier} again."
    )


class StagedInAnotherTableError(TerminalError):
    """The sink's table was changed while a batch waits for its release to the old one.

    Data: sink, job, table, handle, staged_for.
    """

    template = (
        "Sink {sink} of job {job!r} writes to {table} now, but batch {handle!s:.200} was staged for "
        "{staged_for!s:.500}. Point the sink back to {staged_for!s:.500} until its checkpoint is released; then change "
        "the table."
    )


class ForeignDatabaseReleaseError(TerminalError):
    """Another job releases under the same name. Data: sink, job, newest, handle, checkpoint."""

    template = (
        "Sink {sink} of job {job!r} has released checkpoint {newest} without batch {handle}, which belongs to "
        "checkpoint {checkpoint}: another job of this name releases there, from another root. Nothing was lost: the "
        "batch stays staged. Stop one of the two, and give it another job id or database."
    )


class DatabaseTableSupersededError(TerminalError):
    """Another job has replaced the table after this one. Data: sink, job, table, by."""

    template = (
        "Sink {sink} of job {job!r} is superseded in table {table}: job {by!r} has replaced what this job released or "
        "was about to release. This job releases nothing further. If its rows are the wanted ones, run it "
        "again under a new job id."
    )


class DatabaseUnreachableError(TransientError):
    """A connection was lost, a lock timed out, a deadlock occurred, or the server restarts.

    Data: sink, job, doing, cause.
    """

    template = "sink {sink!r} of job {job!r} could not {doing}: {cause}"
