"""What a release does, by what the ledger says. Pure; the row is locked, so nothing changes meanwhile (R9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from airflow_provider_ckpt.sinks.database.errors import (
    DatabaseTableSupersededError,
    ForeignDatabaseReleaseError,
    SinkReturnedElsewhereError,
)
from airflow_provider_ckpt.sinks.database.failures import Failures
from airflow_provider_ckpt.sinks.sink import Handle


@dataclass(frozen=True)
class LedgerRow:
    """Of one sink of one job. ``born``: of this row, for ever: one that was made anew has another. ``last``:
    checkpoint, 0 before the first release; ``rows``: of that release. ``superseded_by``: the job that has replaced the
    table. ``target``: the sink's table, and ``mode``: how it releases there; as of the first release they stay."""

    born: str
    last: int
    rows: int
    superseded_by: str | None
    target: str
    mode: str


@dataclass(frozen=True)
class Decision:
    """``waiting``: the handles to release now. ``counts``: what to answer instead, if there is nothing to do."""

    waiting: tuple[Handle, ...] = ()
    counts: dict[str, int] | None = None


@dataclass(frozen=True)
class LedgerRules:
    """Of one sink of one job."""

    failures: Failures

    def check(self, row: LedgerRow | None, handles: Sequence[Handle]) -> None:
        """A handle says what it knew when it was staged. Raises LedgerLostError: taken for "nothing was released", a
        ledger that is gone would have rows released once more."""
        for handle in handles:
            if row is None:
                raise self.failures.ledger_lost(f"it has no entry, and batch {handle['id']} knows of one")
            if row.born != handle["ledger"]:
                raise self.failures.ledger_lost(f"its entry was made anew since batch {handle['id']} was staged")
            if row.last < handle["since"]:
                raise self.failures.ledger_lost(
                    f"its last release is {row.last}, and batch {handle['id']} knows of {handle['since']}"
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
        """``handles``: those with rows, checked; ``released``: ids of those that were released before; ``replaces``:
        the first release empties the table, whether it has rows or not. Raises ForeignDatabaseReleaseError,
        DatabaseTableSupersededError."""
        if row is None:
            return Decision(counts={"rows": 0})
        waiting = {handle["id"]: handle for handle in handles if handle["id"] not in released}
        if checkpoint <= row.last:
            for handle_id in waiting:
                raise ForeignDatabaseReleaseError(
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
        """A sink that the job has left out and names again is a new one, and its entry is that of the old one. With
        another table who releases there, and who replaces it, would be told by the wrong one. Raises
        SinkReturnedElsewhereError."""
        if row is None or row.last == 0 or (row.target, row.mode) == (target, mode):
            return
        raise SinkReturnedElsewhereError(
            sink=self.failures.context.uid,
            job=self.failures.context.job_id,
            table=target,
            mode=mode,
            released=row.last,
            earlier=row.target,
            earlier_mode=row.mode,
        )

    def refuse_lost(self, row: LedgerRow | None) -> None:
        """Refuse a sink whose table is not there if rows were released to it. An empty release of ``replace`` has
        none. Raises TableLostError."""
        if row is not None and row.rows:
            raise self.failures.table_lost(row.last)

    def refuse_superseded(self, row: LedgerRow) -> None:
        if row.superseded_by is not None:
            raise DatabaseTableSupersededError(
                sink=self.failures.context.uid,
                job=self.failures.context.job_id,
                table=self.failures.table,
                by=row.superseded_by,
            )
