"""Constructors of the errors of one sink of one job. Each error names the sink and the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import (
    MissingPackageError,
    OutputLostError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    RowsRefusedError,
    SinkUnavailableError,
    StagedDataDamagedError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext

_LEFT_OUT = "A trigger of table {table} leaves the others out. Change it or drop it"
_DELETED = (
    "{staged} are still staged: something other than this job deleted them, or the database was restored from an "
    "older backup. Bring them back"
)


@dataclass(frozen=True)
class Failures:
    """The errors of one sink. ``table``, ``ledger``: names in messages. Callers put no values of rows into errors."""

    context: SinkContext
    table: str
    ledger: str

    def mismatch(self, problem: str, advice: str) -> TargetRefusedError:
        return TargetRefusedError(
            "sink {sink!r} of job {job!r} cannot write to table {table}: {problem}. {advice}.",
            sink=self.context.uid,
            job=self.context.job_id,
            table=self.table,
            problem=problem,
            advice=advice,
        )

    def table_lost(self, released: int) -> OutputLostError:
        return OutputLostError(
            "sink {sink!r} of job {job!r}: there is no table {table}, and its ledger {ledger} says that checkpoint "
            "{released} was released to it. Was the table dropped or renamed, or may the user of the connection not "
            "see it? A new table would lack the rows that were released. Bring the table back, or run the job under "
            "another id. To continue without these rows, create the table yourself",
            sink=self.context.uid,
            job=self.context.job_id,
            table=self.table,
            ledger=self.ledger,
            released=released,
        )

    def database_refused(self, problem: str) -> TargetRefusedError:
        return TargetRefusedError(
            "sink {sink!r} of job {job!r} cannot use its database: {problem}.",
            sink=self.context.uid,
            job=self.context.job_id,
            problem=problem,
        )

    def unreachable(self, doing: str, cause: str) -> SinkUnavailableError:
        return SinkUnavailableError(
            "sink {sink!r} of job {job!r} could not {doing}: {cause}",
            sink=self.context.uid,
            job=self.context.job_id,
            doing=doing,
            cause=cause,
        )

    def rows_refused(self, problem: str) -> RowsRefusedError:
        return RowsRefusedError(
            "sink {sink!r} of job {job!r}: table {table} does not take rows of this batch: {what}. Nothing of the "
            "batch is acknowledged or visible, and none of it is lost. Correct the rows (a function of the job) or "
            "the table, and resume with --resume-failed, or by clearing the task.",
            sink=self.context.uid,
            job=self.context.job_id,
            table=self.table,
            what=problem,
        )

    def release_refused(self, checkpoint: int) -> Callable[[str], ReleaseRefusedError]:
        return lambda problem: ReleaseRefusedError(
            "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released to table {table}: {what}. "
            "Nothing of it is visible, and its rows stay staged. Correct the cause in the database, and resume with "
            "--resume-failed.",
            sink=self.context.uid,
            job=self.context.job_id,
            checkpoint=checkpoint,
            table=self.table,
            what=problem,
        )

    def rows_missing(self, handle: Handle, checkpoint: int, *, staged: int, moved: int) -> StagedDataDamagedError:
        """Return the error for ``staged`` rows of which only ``moved`` reached the target."""
        is_staged = staged == handle["rows"]
        return StagedDataDamagedError(
            "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: of batch {handle} {expected} "
            "rows were staged, and {found} reached the table. {cause}, and resume with --resume-failed, or run the "
            "job under another id, from its input. Nothing of the checkpoint was released.",
            sink=self.context.uid,
            job=self.context.job_id,
            checkpoint=checkpoint,
            handle=handle["id"],
            expected=handle["rows"],
            found=moved,
            cause=_LEFT_OUT.format(table=self.table) if is_staged else _DELETED.format(staged=staged),
        )

    def deletion_refused(self, problem: str) -> TerminalError:
        return TerminalError(
            "sink {sink!r} of job {job!r} cannot delete rows that are staged for table {table}: {problem}. The rows "
            "are not visible. Let the user of the connection drop the staging tables, or drop them yourself",
            sink=self.context.uid,
            job=self.context.job_id,
            table=self.table,
            problem=problem,
        )

    def ledger_lost(self, problem: str) -> ReleaseRecordLostError:
        return ReleaseRecordLostError(
            "The ledger {ledger} of sink {sink} of job {job!r} is not the one that the job has used: {problem}. Was "
            "the schema dropped, the database restored from a backup, or does the connection lead to another one? "
            "Nothing was released because of it. Bring the ledger back and resume with --resume-failed, or run the "
            "job under another id, into another table.",
            sink=self.context.uid,
            job=self.context.job_id,
            ledger=self.ledger,
            problem=problem,
        )


def ledger_version_error(ledger: str, version: object, known_version: int) -> TerminalError:
    return TerminalError(
        "The ledger {ledger} has version {found}, and this version of airflow-provider-ckpt knows {known}: upgrade it",
        ledger=ledger,
        found=version or "unknown",
        known=known_version,
    )


def driver_missing(sink: str, package: str, extra: str) -> MissingPackageError:
    return MissingPackageError(
        "{sink} needs the package {package!r}, which is not installed here. Install it where drivers and executors "
        "run: pip install 'airflow-provider-ckpt[{extra}]'",
        sink=sink,
        package=package,
        extra=extra,
    )
