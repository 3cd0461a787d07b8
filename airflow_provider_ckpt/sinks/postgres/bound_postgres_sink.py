"""A PostgreSQL sink in one job: stages, releases and cleans up in its database."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from airflow_provider_ckpt.sinks.database.failures import Failures
from airflow_provider_ckpt.sinks.database.handle import checked_handle
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow, LedgerRules
from airflow_provider_ckpt.sinks.postgres.database import Database
from airflow_provider_ckpt.sinks.postgres.ledger import Ledger
from airflow_provider_ckpt.sinks.postgres.names import staging_table
from airflow_provider_ckpt.sinks.postgres.releasing import Releasing
from airflow_provider_ckpt.sinks.postgres.settings import Settings
from airflow_provider_ckpt.sinks.postgres.staging import copy_rows, create_staging, create_target
from airflow_provider_ckpt.sinks.postgres.table_checks import Columns, problems
from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable, read_table
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, SinkInput, StageRequest, attempt_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HANDLE_FORMAT = "airflow-provider-ckpt/postgres-handle"
Connection = psycopg.Connection[Any]


class BoundPostgresSink(BoundSink):
    """Release is one transaction: lock the entry of job and sink in the ledger, compare the checkpoint, skip the
    handles that are released, move the rows of the others, note them, advance the entry, commit. Why no crash, no
    second releaser and no late one does harm:

    1. Of two at once the second waits for the lock, and then reads what the first has committed.
    2. What was not committed did not happen: the staging tables are dropped in the same transaction, too.
    3. Whether a commit whose reply was lost has happened tells the ledger, at the next call. Nothing is prepared: a
       prepared transaction whose fate nobody knows blocks others until somebody decides.
    4. Rows of a task of Spark that ran twice are there twice; a handle names the attempts that count.
    5. A handle knows the entry of the ledger, and how far it was: one that was lost is never taken for a new one.
    """

    def __init__(self, settings: Settings, context: SinkContext, database: Database) -> None:
        self._settings, self._context, self._database = settings, context, database
        self._table, self._schema = settings.table, settings.schema
        self._ledger = Ledger(settings.schema, context, self._table, settings.mode)
        self._failures = Failures(context, str(self._table), f"{settings.schema}.ledger")
        self._rules = LedgerRules(self._failures)

    def __repr__(self) -> str:
        return f"BoundPostgresSink({self._context.uid!r}, {str(self._table)!r})"

    # ---- before

    def check_rows(self, given: SinkInput) -> None:
        with self._transaction("look at its table") as connection:
            self._check_schema(connection)
            table = read_table(connection, self._table)
            if table is None:
                self._check_creatable(connection)
            else:
                self._refuse_problems(given.columns, table)

    def _check_schema(self, connection: Connection) -> None:
        """Of the ledger and the staging tables."""
        schema = self._schema
        asked = "SELECT has_schema_privilege(oid, 'CREATE, USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s"
        may = connection.execute(asked, (schema,)).fetchone()
        if may is None:
            may = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone()
            advice = (
                f"CREATE SCHEMA {schema} AUTHORIZATION <the user of the connection>, or name another staging_schema"
            )
            if may is None or not may[0]:
                raise self._failures.mismatch(
                    f"schema {schema!r} does not exist, and its user may not create it", advice
                )
        elif not may[0]:
            advice = f"GRANT CREATE, USAGE ON SCHEMA {schema}, or name another staging_schema"
            raise self._failures.mismatch(f"its user may create no tables in the schema {schema!r}", advice)

    def _check_creatable(self, connection: Connection) -> None:
        schema = self._table.schema
        if not self._settings.create:
            raise self._failures.mismatch(
                "there is no such table", "Create it, or let the sink create it (create=True)"
            )
        asked = "SELECT has_schema_privilege(oid, 'CREATE, USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s"
        may = connection.execute(asked, (schema,)).fetchone()
        if may is None or not may[0]:
            problem = "does not exist" if may is None else "is not one in which its user may create tables"
            raise self._failures.mismatch(f"there is no such table, and its schema {schema!r} {problem}", "Create it")

    def _refuse_problems(self, columns: Columns, table: TargetTable) -> None:
        for problem, advice in problems(columns, table, self._settings.mode, self._settings.key):
            raise self._failures.mismatch(problem, advice)

    def prepare(self) -> None:
        with self._transaction("make its ledger") as connection:
            self._ledger.make(connection, uuid.uuid4().hex)
            row = self._ledger.row(connection)
            if row is not None:
                self._rules.refuse_superseded(row)

    # ---- stage

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        columns = [(one["name"], one["type"]) for one in json.loads(frame.schema.json())["fields"]]
        name = staging_table(self._context.job_id, self._context.uid, request.id)
        staging = sql.Identifier(self._schema, name)
        with self._transaction("make a staging table") as connection:
            row = self._known(connection)
            target = self._target(connection, columns)
            create_staging(connection, staging, self._table, target, columns)
            self._ledger.note_staged(connection, request.id, name)
        answers = copy_rows(frame, request, self._database, staging, columns, target, self._failures)
        rows = sum(one["rows"] for one in answers)
        if rows == 0:
            self.delete_staged([request.id])
        return {
            "format": HANDLE_FORMAT,
            "version": 1,
            "id": request.id,
            "rows": rows,
            "table": str(self._table),
            "staged": name,
            "columns": [column for column, _ in columns],
            "parts": [one["part"] for one in answers if one["rows"]],
            "ledger": row.born,
            "since": row.last,
        }

    def _known(self, connection: Connection) -> LedgerRow:
        row = self._ledger.row(connection)
        if row is None:
            raise self._failures.ledger_lost("its entry has gone while the job runs")
        return row

    def _target(self, connection: Connection, columns: Columns) -> TargetTable:
        """As it is now: somebody may have altered it since the job began."""
        table = read_table(connection, self._table)
        if table is None:
            self._check_creatable(connection)
            self._ledger.lock_target(connection, alone=True)  # against another subtask that creates it
            table = read_table(connection, self._table)
        if table is None:
            create_target(connection, self._table, columns, self._settings.key)
            table = read_table(connection, self._table)
            assert table is not None
        self._refuse_problems(columns, table)
        return table

    # ---- release

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        checked = [checked_handle(one, HANDLE_FORMAT, self._context, str(self._table)) for one in handles]
        staged = [handle for handle in checked if handle["rows"]]
        refused = self._failures.release_refused(checkpoint)
        doing = f"release checkpoint {checkpoint}"
        with self._database.transaction(doing, self._failures, refused) as connection:
            return self._release(connection, staged, checkpoint)

    def _release(self, connection: Connection, staged: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        seen = self._ledger.row(connection)
        replaces = self._settings.mode == "replace"
        if seen is not None:
            # before the entry, always: two that replace would wait for each other
            self._ledger.lock_target(connection, alone=replaces and seen.last == 0)
            row = self._ledger.row(connection, lock=True)
        else:
            row = None
        self._rules.check(row, staged)
        released = self._ledger.released(connection, [handle["id"] for handle in staged]) if staged else set()
        decision = self._rules.decide(row, staged, released, checkpoint, replaces=replaces)
        if decision.counts is not None:
            return decision.counts
        assert row is not None
        releasing = Releasing(connection, self._table, self._schema, self._settings.mode, self._settings.key)
        self._refuse_missing(releasing, decision.waiting, checkpoint)
        if replaces and row.last == 0 and not self._ledger.another_has_released(connection):
            self._ledger.supersede(connection)
            releasing.empty()
        for handle in decision.waiting:
            moved = releasing.move(handle)
            if moved != handle["rows"]:
                raise self._failures.missing(handle, checkpoint, moved)
        rows = sum(handle["rows"] for handle in decision.waiting)
        self._ledger.note_release(connection, [handle["id"] for handle in decision.waiting], checkpoint, rows)
        return {"rows": rows}

    def _refuse_missing(self, releasing: Releasing, waiting: Sequence[Handle], checkpoint: int) -> None:
        for handle in releasing.without_table(waiting):
            raise self._failures.missing(handle, checkpoint, 0)

    def last_released(self) -> int:
        with self._transaction("read its ledger") as connection:
            row = self._ledger.row(connection)
        return 0 if row is None else row.last

    # ---- afterwards

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        with self._transaction("look for what is staged") as connection:
            staged = list(self._ledger.staged(connection))
        dead = [one for one in staged if one not in live_handles and _is_dead(attempt_of(one), live_attempts)]
        self.delete_staged(dead)
        return sorted(dead)

    def staged(self) -> dict[str, list[int]]:
        with self._transaction("look for what is staged") as connection:
            found = self._ledger.staged(connection)
        return {handle: [size] for handle, (_, size) in found.items() if size >= 0}

    def delete_staged(self, ids: Collection[str]) -> None:
        for handle in sorted(ids):
            name = staging_table(self._context.job_id, self._context.uid, handle)
            with self._transaction("delete what is staged") as connection:
                dropped = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(self._schema, name))
                connection.execute(dropped)
                if self._ledger.exists(connection):
                    self._ledger.forget_staged(connection, handle)

    # ---- the database

    def _transaction(self, doing: str) -> AbstractContextManager[Connection]:
        def refused(what: str) -> Exception:
            return self._failures.rows_refused(f"to {doing}: {what}")

        return self._database.transaction(doing, self._failures, refused)


def _is_dead(attempt: str | None, live_attempts: Collection[str]) -> bool:
    return attempt is not None and attempt not in live_attempts
