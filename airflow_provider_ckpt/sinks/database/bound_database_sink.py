"""The common part of the database sinks that are bound to a job."""

from __future__ import annotations

import itertools
import json
import logging
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.database.database_settings import DatabaseSettings
from airflow_provider_ckpt.sinks.database.ledger import C, Ledger, ReleaseStatements
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow, LedgerRules
from airflow_provider_ckpt.sinks.database.participant_release import ParticipantRelease
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Columns, Problem
from airflow_provider_ckpt.sinks.errors import (
    SinkUnavailableError,
    StagedElsewhereError,
)
from airflow_provider_ckpt.sinks.garbage import delete_garbage
from airflow_provider_ckpt.sinks.handles import reading_handle
from airflow_provider_ckpt.sinks.sink import (
    BoundSink,
    Handle,
    ReleaseParticipant,
    SinkContext,
    SinkInput,
    StageRequest,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
T = TypeVar("T")
PartitionResults = list[dict[str, Any]]
"""``{"task_attempt": attempt id of the Spark task, "rows": number of rows}`` of each successful task."""


class BoundDatabaseSink(BoundSink, Generic[C]):
    """A ``DatabaseSink`` that is bound to one job.

    A release is one transaction. It locks the ledger entry of job and sink, and compares the checkpoint. It skips
    released handles, moves the rows of the other handles, records the moved handles, advances the entry and commits. No
    crash, second releaser or late releaser does harm:

    1. The second of two releasers waits for the lock, and then reads what the first releaser has committed.
    2. If the reply to a commit is lost, the next call reads in the ledger whether the commit happened. Prepared
       transactions are not used, because an undecided transaction blocks other sessions.
    3. A Spark task that ran twice has staged its rows twice. A handle lists the successful task attempts, and only
       their rows are moved.
    4. A handle records the id of the ledger entry and the entry's last release. So a recreated ledger is detected, and
       not taken for that of a new job.
    """

    handle_format: ClassVar[str]

    def __init__(self, settings: DatabaseSettings, context: SinkContext, ledger: Ledger[C], failures: Failures) -> None:
        self._settings, self._context, self._ledger, self._failures = settings, context, ledger, failures
        self._table, self._schema = settings.table, settings.schema
        self._rules = LedgerRules(failures)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._context.uid!r}, {str(self._table)!r})"

    # ---- specific to each database

    @abstractmethod
    def _open(self, doing: str, refusal_of: Callable[[Any], Exception]) -> AbstractContextManager[C]:
        """Open a transaction. ``refusal_of``: returns the error to raise for a database error that no retry mends."""

    @abstractmethod
    def _explain(self, error: Any) -> str:
        """Return the problem that a database error reports, and advice, as one text without values of rows."""

    @abstractmethod
    def _check_schema(self, connection: C) -> None:
        """Refuse a schema that cannot hold the ledger and staging tables."""

    @abstractmethod
    def _check_creatable(self, connection: C) -> None:
        """Refuse a schema in which the absent table cannot be created."""

    @abstractmethod
    def _problems(self, connection: C, columns: Columns) -> Iterable[Problem] | None:
        """Return what prevents a release to the table as it is now, the most serious problem first.

        None if there is no table.
        """

    @abstractmethod
    def _exists(self, connection: C) -> bool:
        """Return True if the database has a table or another object with the target's name."""

    @abstractmethod
    def _is_empty(self, connection: C) -> bool:
        """Return True if the existing table has no row; False if it has rows, or may have rows that are hidden."""

    @abstractmethod
    def _stage(
        self, frame: DataFrame, request: StageRequest, columns: Columns
    ) -> tuple[LedgerRow, str, PartitionResults]:
        """Stage the rows. Return (current ledger entry, name of the staging table, results of the partitions)."""

    @abstractmethod
    def _release_statements(self, connection: C) -> ReleaseStatements: ...

    def _undropped(self, connection: C) -> list[str]:
        """Return ids of released handles whose staging tables still exist; empty if a release itself can drop them."""
        return []

    @abstractmethod
    def _drop(self, connection: C, handle: str) -> None:
        """Drop the staging table of a handle's id, if it exists."""

    # ---- before the first batch

    def check_rows(self, given: SinkInput) -> None:
        with self._transaction("check its table") as connection:
            self._check_schema(connection)
            problems = self._problems(connection, given.columns)
            if problems is None:
                self._check_creatable(connection)
            else:
                self._refuse(problems)
            self._refuse_moved(self._ledger.row(connection))

    def _refuse(self, problems: Iterable[Problem]) -> None:
        for problem, advice in problems:
            raise self._failures.mismatch(problem, advice)

    def _refuse_absent(self) -> None:
        if not self._settings.create:
            raise self._failures.mismatch(
                "there is no such table", "Create it, or let the sink create it (create=True)"
            )

    def prepare(self) -> None:
        with self._transaction("check its ledger") as connection:
            self._check_schema(connection)
            self._refuse_moved(self._ledger.row(connection))
        with self._open("create its ledger", self._ledger_creation_error) as connection:
            self._ledger.create(connection, uuid.uuid4().hex)
            row = self._ledger.row(connection)
            if row is not None:
                self._rules.refuse_superseded(row)

    def _refuse_moved(self, row: LedgerRow | None) -> None:
        self._rules.refuse_moved(row, str(self._table), self._settings.mode)

    def _ledger_creation_error(self, error: Any) -> Exception:
        advice = "Give its user the right to create and drop tables there, or name another staging_schema"
        return self._failures.mismatch(f"its ledger cannot be created ({self._explain(error)})", advice)

    # ---- stage

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        columns = [(field["name"], field["type"]) for field in json.loads(frame.schema.json())["fields"]]
        row, staged, results = self._stage(frame, request, columns)
        rows = sum(result["rows"] for result in results)
        if rows == 0:
            self.delete_staged([request.id])
        return {
            "format": self.handle_format,
            "version": 1,
            "id": request.id,
            "rows": rows,
            "table": str(self._table),
            "staged": staged,
            "columns": [column for column, _ in columns],
            "types": [kind for _, kind in columns],
            "parts": [result["task_attempt"] for result in results if result["rows"]],
            "ledger": row.entry_id,
            "since": row.last,
        }

    def _make_with_retries(self, request: StageRequest, make: Callable[[], T]) -> T:
        """Call ``make``, which makes the staging table of the request, and return its value.

        Repeats the call while the database fails temporarily. The output of the previous try is deleted first, because
        that try may have committed although the reply was lost.
        """
        tries = itertools.count()

        def make_again() -> T:
            if next(tries):
                self.delete_staged([request.id])
            return make()

        return request.patient(make_again)

    def _existing_row(self, connection: C) -> LedgerRow:
        row = self._ledger.row(connection)
        if row is None:
            raise self._failures.ledger_lost("its entry was deleted while the job runs")
        return row

    # ---- release

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return self.release_together([ReleaseParticipant(self, handles)], checkpoint)[0]

    def release_together(self, participants: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        staged = [(self._of_same_kind(participant.sink), participant.handles) for participant in participants]
        work = [(sink, sink._with_rows(handles)) for sink, handles in staged]
        current = self

        def refusal_of(error: Any) -> Exception:
            return current._failures.release_refused(checkpoint)(current._explain(error))

        counts, undropped = list[dict[str, int]](), list[list[str]]()
        with self._open(f"release checkpoint {checkpoint}", refusal_of) as connection:
            releases = {sink: sink._participant_release(connection, handles, checkpoint) for sink, handles in work}
            for current in releases:
                releases[current].decide()
            for current in reversed(releases):
                releases[current].empty()
            for current in releases:
                counts.append(releases[current].fill())
                undropped.append(current._undropped(connection))
        for (sink, _), names in zip(work, undropped, strict=True):
            sink._clean_up(names)
        return counts

    def _clean_up(self, released: Sequence[str]) -> None:
        """Delete the staging tables of released batches. Log a failure; the next release or clean-up tries again."""
        try:
            self.delete_staged(released)
        except SinkUnavailableError as error:
            log.info("staging tables of released batches are not deleted yet: %s", error)
        except CkptError as error:
            log.warning(
                "staging tables of released batches cannot be deleted, so their rows are stored twice: %s", error
            )

    def _of_same_kind(self, sink: BoundSink) -> BoundDatabaseSink[C]:
        assert isinstance(sink, type(self)), f"{sink!r} is not of {self!r}'s kind"
        return sink

    def _with_rows(self, handles: Sequence[Handle]) -> list[Handle]:
        checked = [checked_handle(handle, self.handle_format, self._context, str(self._table)) for handle in handles]
        return [handle for handle in checked if handle["rows"]]

    def _participant_release(self, connection: C, staged: Sequence[Handle], checkpoint: int) -> ParticipantRelease[C]:
        releasing, replaces = self._release_statements(connection), self._settings.mode == "replace"

        def problems(waiting: Sequence[Handle]) -> Iterable[Problem]:
            return self._current_problems(connection, waiting)

        return ParticipantRelease(
            connection,
            self._ledger,
            self._failures,
            releasing,
            staged,
            checkpoint,
            replaces=replaces,
            problems=problems,
        )

    def _current_problems(self, connection: C, waiting: Sequence[Handle]) -> Iterable[Problem]:
        seen: list[Columns] = []
        for handle in waiting:
            columns = list(zip(handle["columns"], handle["types"], strict=True))
            if columns not in seen:
                seen.append(columns)
                yield from self._problems(connection, columns) or ()

    def last_released(self) -> int:
        """Return the ledger's last released checkpoint; 0 if there is none.

        Raises OutputLostError if the table is gone and the last release had rows, which a new table would lack.
        """
        with self._transaction("read its ledger") as connection:
            row = self._ledger.row(connection)
            if not self._exists(connection):
                self._rules.refuse_lost(row)
        return 0 if row is None else row.last

    def loss_evidence(self) -> str | None:
        with self._transaction("search its table for rows") as connection:
            row = self._ledger.row(connection)
            if row is None or not row.rows or not self._is_empty(connection):
                return None
        return f"table {self._table} is empty, and checkpoint {row.last} was released to it"

    # ---- after a release

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        with self._transaction("list its staged rows") as connection:
            staged = self._ledger.staged(connection)
        tables = {handle: f"{self._schema}.{table}" for handle, (table, _) in staged.items()}
        return delete_garbage(
            self._context, tables, live_handles, live_attempts, lambda handle: self.delete_staged([handle])
        )

    def staged(self) -> dict[str, list[int]]:
        with self._transaction("list its staged rows") as connection:
            tables = self._ledger.staged(connection)
        return {handle: [size] for handle, (_, size) in tables.items() if size >= 0}

    def delete_staged(self, ids: Collection[str]) -> None:
        for handle in sorted(ids):
            with self._open("delete its staged rows", self._deletion_error) as connection:
                self._drop(connection, handle)
                if self._ledger.exists(connection):
                    self._ledger.forget_staged(connection, handle)

    def _deletion_error(self, error: Any) -> Exception:
        return self._failures.deletion_refused(self._explain(error))

    def _transaction(self, doing: str) -> AbstractContextManager[C]:
        return self._open(doing, lambda error: self._failures.rows_refused(f"to {doing}: {self._explain(error)}"))


_FIELDS = {
    "id": reader(str),
    "rows": reader(Count),
    "table": reader(str),
    "staged": reader(str),
    "columns": reader(list[str]),
    "types": reader(list[Any]),
    "parts": reader(list[Count]),
    "ledger": reader(str),
    "since": reader(Count),
}


def checked_handle(handle: Mapping[str, Any], handle_format: str, context: SinkContext, table: str) -> Handle:
    """Return the handle if it is complete and was staged for this table.

    Raises UnknownHandleError, DamagedHandleError, StagedElsewhereError.
    """
    with reading_handle(handle, handle_format, context):
        for name, read in _FIELDS.items():
            read_field(handle, name, read)
        if len(handle["types"]) != len(handle["columns"]):
            raise DamagedFormError(what=f"{len(handle['columns'])} columns have {len(handle['types'])} types")
    if handle["table"] != table:
        raise StagedElsewhereError(
            "Sink {sink} of job {job!r} writes to {table} now, but batch {handle!s:.200} was staged for "
            "{staged_for!s:.500}. Point the sink back to {staged_for!s:.500} until its checkpoint is released; then "
            "change the table.",
            sink=context.uid,
            job=context.job_id,
            table=table,
            handle=handle["id"],
            staged_for=handle["table"],
        )
    return dict(handle)
