"""The work of one sink in the transaction that releases a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from airflow_provider_ckpt.sinks.database.ledger import C, Ledger, ReleaseStatements
from airflow_provider_ckpt.sinks.database.ledger_rules import Decision, LedgerRow, LedgerRules
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Problem
from airflow_provider_ckpt.sinks.sink import Handle

REMEMBERED = 100
"""The ledger keeps the ids of released batches for this many checkpoints, so that a late process sees them as done."""

_KEPT = (
    "the table still has rows after the release deleted all of them, because a trigger or a rule of the table keeps "
    "them or inserts them again. Disable it until this release is done, or drop it"
)


class ParticipantRelease(Generic[C]):
    """The work of one sink in a release of one or several sinks. ``connection`` is in the transaction of the release.

    First :meth:`decide` is called for every sink, then :meth:`empty` in reverse order, then :meth:`fill` in order. So a
    table to which foreign keys refer can be filled first and emptied last.

    ``problems``: returns why the table, as it is now, cannot accept the rows of given handles.
    """

    def __init__(
        self,
        connection: C,
        ledger: Ledger[C],
        failures: Failures,
        statements: ReleaseStatements,
        staged: Sequence[Handle],
        checkpoint: int,
        *,
        replaces: bool,
        problems: Callable[[Sequence[Handle]], Iterable[Problem]],
    ) -> None:
        self._connection, self._ledger, self._failures, self._statements = connection, ledger, failures, statements
        self._staged, self._checkpoint, self._replaces = staged, checkpoint, replaces
        self._problems = problems
        self._row: LedgerRow | None = None
        self._decision = Decision()

    def decide(self) -> None:
        """Lock the sink's ledger entry and table until the transaction ends. Decide what to release; change nothing."""
        self._row = self._lock_row()
        rules, staged = LedgerRules(self._failures), self._staged
        rules.check(self._row, staged)
        released = self._ledger.released(self._connection, [handle["id"] for handle in staged]) if staged else set()
        self._decision = rules.decide(self._row, staged, released, self._checkpoint, replaces=self._replaces)
        waiting = self._decision.waiting
        for handle in self._statements.without_table(waiting) if waiting else ():
            raise self._failures.rows_missing(handle, self._checkpoint, staged=0, moved=0)
        if waiting:
            self._refuse_altered(waiting)

    def _refuse_altered(self, waiting: Sequence[Handle]) -> None:
        """Refuse a table that was altered so that rows no longer fit. Its columns may silently round or cut values."""
        self._statements.lock_definition()
        for problem, advice in self._problems(waiting):
            raise self._failures.release_refused(self._checkpoint)(f"{problem}. {advice}")

    def _lock_row(self) -> LedgerRow | None:
        row = self._ledger.row(self._connection)
        if row is None:
            return None
        # Always lock the target before the entry. Otherwise two sinks that replace would wait for each other.
        self._ledger.lock_target(self._connection, exclusive=self._replaces and row.last == 0)
        return self._ledger.row(self._connection, lock=True)

    def empty(self) -> None:
        """Delete all rows of the table, if this is the first release of a job whose sinks replace rows."""
        if self._decision.counts is not None or not self._replaces:
            return
        assert self._row is not None
        if self._row.last == 0 and not self._ledger.has_other_sink_released(self._connection):
            self._ledger.supersede(self._connection)
            if not self._statements.empty():
                raise self._failures.release_refused(self._checkpoint)(_KEPT)

    def fill(self) -> dict[str, int]:
        """Move the rows of the waiting handles, and return the counts of the release."""
        if self._decision.counts is not None:
            return self._decision.counts
        waiting = self._decision.waiting
        for handle in waiting:
            moved = self._statements.move(handle)
            if moved != handle["rows"]:
                staged = self._statements.count(handle)
                raise self._failures.rows_missing(handle, self._checkpoint, staged=staged, moved=moved)
            self._statements.drop(handle)
        rows = sum(handle["rows"] for handle in waiting)
        self._ledger.record_release(self._connection, [handle["id"] for handle in waiting], self._checkpoint, rows)
        self._forget_released()
        return {"rows": rows}

    def _forget_released(self) -> None:
        """Delete records of releases over ``REMEMBERED`` checkpoints before this release's oldest batch was staged."""
        upto = min((handle["since"] for handle in self._staged), default=0) - REMEMBERED
        if upto > 0:
            self._ledger.forget_released(self._connection, upto)
