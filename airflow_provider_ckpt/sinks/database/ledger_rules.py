"""The decision about a release, made from the sink's locked ledger entry (R9). No I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.errors import ForeignReleaseError, OutputSupersededError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import Handle


@dataclass(frozen=True)
class LedgerRow:
    """The ledger entry of one sink of one job. The first release fixes ``target`` and ``mode``.

    ``entry_id``: random id, different if the entry was created again. ``last``: last released checkpoint; 0 before the
    first release. ``rows``: number of rows in the last release.
    """

    entry_id: str
    last: int
    rows: int
    superseded_by: str | None
    target: str
    mode: str


@dataclass(frozen=True)
class Decision:
    """A decision about a release. ``waiting``: handles to release.

    ``counts``: the counts to return without any change of the database; None if the release must be done.
    """

    waiting: tuple[Handle, ...] = ()
    counts: dict[str, int] | None = None


@dataclass(frozen=True)
class LedgerRules:
    """The rules for releases of one sink of one job."""

    failures: Failures

    def check(self, row: LedgerRow | None, handles: Sequence[Handle]) -> None:
        """Refuse a ledger that was deleted, created again or set back after one of the handles was staged.

        Raises ReleaseRecordLostError.
        """
        for handle in handles:
            if row is None:
                raise self.failures.ledger_lost(
                    f"it has no entry, and there was one when batch {handle['id']} was staged"
                )
            if row.entry_id != handle["ledger"]:
                raise self.failures.ledger_lost(f"its entry was created again after batch {handle['id']} was staged")
            if row.last < handle["since"]:
                raise self.failures.ledger_lost(
                    f"its last release is {row.last}, and was {handle['since']} when batch {handle['id']} was staged"
                )

    def decide(
        self,
        row: LedgerRow | None,
        handles: Sequence[Handle],
        released: Collection[str],
        checkpoint: int,
        *,
        replaces: bool,
    ) -> Decision:
        """Decide which handles to release. The sink's entry ``row`` must be locked.

        ``replaces``: True if the first release empties the table, even if the release has no rows.

        Raises ForeignReleaseError, OutputSupersededError.
        """
        if row is None:
            return Decision(counts={"rows": 0})
        waiting = {handle["id"]: handle for handle in handles if handle["id"] not in released}
        if checkpoint <= row.last:
            for handle_id in waiting:
                raise ForeignReleaseError(
                    "Sink {sink} of job {job!r} has released checkpoint {newest} without batch {handle}, which "
                    "belongs to checkpoint {checkpoint}: another job of this name releases there, from another "
                    "root. Nothing was lost: the batch stays staged. Stop one of the two, and give it another job "
                    "id or database.",
                    sink=self.failures.context.uid,
                    job=self.failures.context.job_id,
                    newest=row.last,
                    handle=handle_id,
                    checkpoint=checkpoint,
                )
            return Decision(counts={"rows": row.rows if checkpoint == row.last else 0})
        is_first = replaces and row.last == 0
        if not waiting and not is_first:
            return Decision(counts={"rows": 0})
        self.refuse_superseded(row)
        return Decision(tuple(waiting.values()))

    def refuse_moved(self, row: LedgerRow | None, target: str, mode: str) -> None:
        """Refuse a table or mode that differs from the sink's ledger entry, if the sink has released.

        Such a sink was removed from the job for some runs. Its entry does not describe releases to another table.

        Raises TargetRefusedError.
        """
        if row is None or row.last == 0 or (row.target, row.mode) == (target, mode):
            return
        raise TargetRefusedError(
            "sink {sink!r} of job {job!r} releases to table {table} now (mode {mode!r}), but has released up to "
            "checkpoint {released} to {earlier} (mode {earlier_mode!r}) before the job left it out. Its ledger "
            "knows one table for each sink: give the new one another uid, or name {earlier} again.",
            sink=self.failures.context.uid,
            job=self.failures.context.job_id,
            table=target,
            mode=mode,
            released=row.last,
            earlier=row.target,
            earlier_mode=row.mode,
        )

    def refuse_lost(self, row: LedgerRow | None) -> None:
        """Refuse a sink whose table is gone if the last release had rows.

        Raises OutputLostError.
        """
        if row is not None and row.rows:
            raise self.failures.table_lost(row.last)

    def refuse_superseded(self, row: LedgerRow) -> None:
        if row.superseded_by is not None:
            raise OutputSupersededError(
                "Sink {sink} of job {job!r} is superseded in table {table}: job {by!r} has replaced what this job "
                "released or was about to release. This job releases nothing further. If its rows are the wanted "
                "ones, run it again under a new job id.",
                sink=self.failures.context.uid,
                job=self.failures.context.job_id,
                table=self.failures.table,
                by=row.superseded_by,
            )
