"""The statements that move rows from staging tables to the target, inside the transaction of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName
from airflow_provider_ckpt.sinks.postgres.staging import identifiers
from airflow_provider_ckpt.sinks.sink import Handle

_ROW_TRIGGERS = (
    "SELECT 1 FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7 "
    "AND tgrelid IN (SELECT relid FROM pg_partition_tree(%s::regclass) UNION ALL SELECT %s::regclass) LIMIT 1"
)
"""Query of triggers that may skip a row: BEFORE (2) INSERT (4), for each ROW (1), also on partitions.

A trigger BEFORE UPDATE alone may keep the existing row, for example a newer one. That loses no row.
"""


@dataclass(frozen=True)
class PostgresReleaseStatements:
    connection: psycopg.Connection[Any]
    table: TableName
    schema: str
    mode: str
    key: Sequence[str]

    @property
    def _target(self) -> sql.Identifier:
        return sql.Identifier(self.table.schema, self.table.name)

    def without_table(self, handles: Sequence[Handle]) -> list[Handle]:
        query = (
            "SELECT staging FROM unnest(%s::text[]) staging "
            "WHERE to_regclass(format('%%I.%%I', %s::text, staging)) IS NULL"
        )
        gone = {
            row[0] for row in self.connection.execute(query, ([handle["staged"] for handle in handles], self.schema))
        }
        return [handle for handle in handles if handle["staged"] in gone]

    def lock_definition(self) -> None:
        self.connection.execute(sql.SQL("SELECT FROM {} LIMIT 0").format(self._target))

    def empty(self) -> bool:
        """Delete all rows of the target. Return False if rows remain.

        TRUNCATE is not used, because a query that began earlier would find no rows.
        """
        if self._delete():
            return True
        # Other clients may have inserted rows since the DELETE began. This lock excludes other writers.
        self.connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(self._target))
        return self._delete()

    def _delete(self) -> bool:
        """Delete all rows, and return True if none remains. Fails if a policy hides rows from the user."""
        self.connection.execute("SELECT set_config('row_security', 'off', true)")
        self.connection.execute(sql.SQL("DELETE FROM {}").format(self._target))
        rows_left = self.connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(self._target)).rowcount
        self.connection.execute("SELECT set_config('row_security', 'on', true)")
        return rows_left == 0

    def move(self, handle: Handle) -> int:
        staging = self._staging(handle)
        return self._upsert(handle, staging) if self.mode == "upsert" else self._insert(handle, staging)

    def count(self, handle: Handle) -> int:
        return self._count_rows(sql.SQL("count(*)"), handle, self._staging(handle))

    def drop(self, handle: Handle) -> None:
        self.connection.execute(sql.SQL("DROP TABLE {}").format(self._staging(handle)))

    def _staging(self, handle: Handle) -> sql.Identifier:
        return sql.Identifier(self.schema, handle["staged"])

    def _insert(self, handle: Handle, staging: sql.Identifier) -> int:
        statement = sql.SQL("INSERT INTO {} ({columns}) SELECT {columns} FROM {} WHERE {} = ANY({})").format(
            self._target,
            staging,
            sql.Identifier(TASK_ATTEMPT),
            _task_attempts(handle),
            columns=identifiers(handle["columns"]),
        )
        return self.connection.execute(statement).rowcount

    def _upsert(self, handle: Handle, staging: sql.Identifier) -> int:
        """Upsert the rows of a batch. Return the number of staged rows, less those that did not reach the target.

        Of several rows with the same key the last row is used, so batches must be moved in order.
        """
        other_columns = [name for name in handle["columns"] if name not in self.key]
        may_skip_rows = self._may_skip_rows()
        # If all columns are key columns, an existing row is set to itself, so that it counts as updated.
        assignment = sql.SQL("{0} = EXCLUDED.{0}" if other_columns else "{0} = target.{0}")
        changed = sql.SQL(", ").join(assignment.format(sql.Identifier(name)) for name in other_columns or self.key[:1])
        statement = sql.SQL(
            "INSERT INTO {} AS target ({columns}) "
            "SELECT DISTINCT ON ({key}) {columns} FROM {} WHERE {attempt} = ANY({attempts}) "
            "ORDER BY {key}, {attempt} DESC, {row} DESC ON CONFLICT ({key}) DO {action}"
        ).format(
            self._target,
            staging,
            columns=identifiers(handle["columns"]),
            key=identifiers(self.key),
            attempt=sql.Identifier(TASK_ATTEMPT),
            attempts=_task_attempts(handle),
            row=sql.Identifier(ROW),
            action=sql.SQL("UPDATE SET {}").format(changed) if other_columns or may_skip_rows else sql.SQL("NOTHING"),
        )
        inserted = self.connection.execute(statement).rowcount
        staged = self.count(handle)
        if not may_skip_rows:
            return staged
        keys = sql.SQL("count(DISTINCT ({}))").format(identifiers(self.key))
        return staged - (self._count_rows(keys, handle, staging) - inserted)

    def _count_rows(self, selection: sql.Composable, handle: Handle, staging: sql.Identifier) -> int:
        query = sql.SQL("SELECT {} FROM {} WHERE {} = ANY({})").format(
            selection, staging, sql.Identifier(TASK_ATTEMPT), _task_attempts(handle)
        )
        row = self.connection.execute(query).fetchone()
        return 0 if row is None else int(row[0])

    def _may_skip_rows(self) -> bool:
        """Return True if a trigger may skip rows. Only then the release counts keys, which takes as long as a sort."""
        target = self._target.as_string(self.connection)
        trigger = self.connection.execute(_ROW_TRIGGERS, (target, target)).fetchone()
        return trigger is not None


def _task_attempts(handle: Handle) -> sql.Composable:
    """Return the task attempts as a literal. In a statement with parameters, a % in a name would be misread."""
    return sql.SQL("{}::bigint[]").format(sql.Literal(handle["parts"]))
