"""Constructors for the errors of one sink of one job, with the names that all of them contain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.sinks.database.errors import (
    DatabaseUnfitError,
    DatabaseUnreachableError,
    DriverPackageMissingError,
    LedgerLostError,
    LedgerVersionError,
    ReleaseRefusedError,
    RowsRefusedError,
    StagedRowsMissingError,
    TableLostError,
    TableMismatchError,
)
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext

_LEFT_OUT = "A trigger of table {table} leaves the others out. Change it or drop it"
_DELETED = (
    "{staged} are still staged: something other than this job deleted them, or the database was restored from an "
    "older backup. Bring them back"
)


@dataclass(frozen=True)
class Failures:
    """The errors of one sink. ``table``, ``ledger``: names for people. ``what`` must contain no values of rows."""

    context: SinkContext
    table: str
    ledger: str

    def mismatch(self, problem: str, advice: str) -> TableMismatchError:
        return TableMismatchError(
            sink=self.context.uid, job=self.context.job_id, table=self.table, problem=problem, advice=advice
        )

    def table_lost(self, released: int) -> TableLostError:
        return TableLostError(
            sink=self.context.uid, job=self.context.job_id, table=self.table, ledger=self.ledger, released=released
        )

    def unfit(self, problem: str) -> DatabaseUnfitError:
        return DatabaseUnfitError(sink=self.context.uid, job=self.context.job_id, problem=problem)

    def unreachable(self, doing: str, cause: str) -> DatabaseUnreachableError:
        return DatabaseUnreachableError(sink=self.context.uid, job=self.context.job_id, doing=doing, cause=cause)

    def rows_refused(self, what: str) -> RowsRefusedError:
        return RowsRefusedError(sink=self.context.uid, job=self.context.job_id, table=self.table, what=what)

    def release_refused(self, checkpoint: int) -> Callable[[str], ReleaseRefusedError]:
        return lambda what: ReleaseRefusedError(
            sink=self.context.uid, job=self.context.job_id, checkpoint=checkpoint, table=self.table, what=what
        )

    def missing(self, handle: Handle, checkpoint: int, *, staged: int, moved: int) -> StagedRowsMissingError:
        """Return the error for rows that did not all reach the target.

        Args:
            handle: the batch.
            checkpoint: the checkpoint to release.
            staged: rows in the staging table.
            moved: rows that reached the target.
        """
        is_staged = staged == handle["rows"]
        return StagedRowsMissingError(
            sink=self.context.uid,
            job=self.context.job_id,
            checkpoint=checkpoint,
            handle=handle["id"],
            expected=handle["rows"],
            found=moved,
            cause=_LEFT_OUT.format(table=self.table) if is_staged else _DELETED.format(staged=staged),
        )

    def ledger_lost(self, problem: str) -> LedgerLostError:
        return LedgerLostError(sink=self.context.uid, job=self.context.job_id, ledger=self.ledger, problem=problem)


def ledger_version(ledger: str, found: object, known: int) -> LedgerVersionError:
    return LedgerVersionError(ledger=ledger, found=found or "unknown", known=known)


def driver_missing(sink: str, package: str, extra: str) -> DriverPackageMissingError:
    return DriverPackageMissingError(sink=sink, package=package, extra=extra)
