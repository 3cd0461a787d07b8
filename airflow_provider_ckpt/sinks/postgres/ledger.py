"""The sink's own tables in PostgreSQL: the ledger of releases, the released handles and the staging tables.

These tables change in the same transaction as the data. The release of a batch moves its rows into the target and
inserts its handle into ``released``. Handles of old checkpoints are deleted later. A staging table exists if and only
if ``staged`` names it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from airflow_provider_ckpt.sinks.database.ledger import Ledger
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import ledger_version_error
from airflow_provider_ckpt.sinks.postgres.database import Connection
from airflow_provider_ckpt.sinks.sink import SinkContext

VERSION = 1
FORMAT = "airflow-provider-ckpt/postgres-ledger"
_MAKING = 7263541
"""Key of the advisory lock under which the ledger is created, because concurrent ``IF NOT EXISTS`` may fail."""
_TABLES = (
    "CREATE TABLE {schema}.format (format text PRIMARY KEY, version integer NOT NULL)",
    "CREATE TABLE {schema}.ledger (job text, sink text, target text NOT NULL, mode text NOT NULL, born text NOT NULL, "
    "last bigint NOT NULL, rows bigint NOT NULL, superseded_by text, PRIMARY KEY (job, sink))",
    "CREATE TABLE {schema}.released (job text, sink text, handle text, checkpoint bigint NOT NULL, "
    "PRIMARY KEY (job, sink, handle))",
    "CREATE TABLE {schema}.staged (job text, sink text, handle text, staging text NOT NULL UNIQUE, "
    "PRIMARY KEY (job, sink, handle))",
)


@dataclass(frozen=True)
class PostgresLedger(Ledger[Connection]):
    """The ledger of one sink of one job, in one schema."""

    schema: str
    context: SinkContext
    target: TableName
    mode: str

    @property
    def _sink_key(self) -> tuple[str, str]:
        return self.context.job_id, self.context.uid

    def create(self, connection: Connection, entry_id: str) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        if not self.exists(connection):
            if not _single_value(
                connection.execute("SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (self.schema,))
            ):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
            for statement in _TABLES:
                connection.execute(sql.SQL(statement).format(schema=sql.Identifier(self.schema)))
            connection.execute(self._statement("INSERT INTO {}.format VALUES (%s, %s)"), (FORMAT, VERSION))
        self._check_version(connection)
        connection.execute(
            self._statement(
                "INSERT INTO {0}.ledger AS known (job, sink, target, mode, born, last, rows) "
                "VALUES (%s, %s, %s, %s, %s, 0, 0) "
                "ON CONFLICT (job, sink) DO UPDATE SET target = excluded.target, mode = excluded.mode "
                "WHERE known.last = 0 AND (known.target, known.mode) <> (excluded.target, excluded.mode)"
            ),
            (*self._sink_key, str(self.target), self.mode, entry_id),
        )

    def exists(self, connection: Connection) -> bool:
        query = "SELECT to_regclass(format('%%I.ledger', %s::text)) IS NOT NULL"
        return bool(_single_value(connection.execute(query, (self.schema,))))

    def _check_version(self, connection: Connection) -> None:
        version = _single_value(
            connection.execute(self._statement("SELECT version FROM {}.format WHERE format = %s"), (FORMAT,))
        )
        if version != VERSION:
            raise ledger_version_error(f"{self.schema}.ledger", version, VERSION)

    def row(self, connection: Connection, *, lock: bool = False) -> LedgerRow | None:
        if not self.exists(connection):
            return None
        self._check_version(connection)
        query = "SELECT born, last, rows, superseded_by, target, mode FROM {}.ledger WHERE job = %s AND sink = %s"
        if lock:
            query += " FOR UPDATE"
        row = connection.execute(self._statement(query), self._sink_key).fetchone()
        return None if row is None else LedgerRow(*row)

    def lock_target(self, connection: Connection, *, exclusive: bool) -> None:
        shared = "" if exclusive else "_shared"
        connection.execute(
            sql.SQL("SELECT pg_advisory_xact_lock{}(hashtextextended(%s, 0))").format(sql.SQL(shared)),
            (str(self.target),),
        )

    def released(self, connection: Connection, handles: Sequence[str]) -> set[str]:
        query = "SELECT handle FROM {}.released WHERE job = %s AND sink = %s AND handle = ANY(%s)"
        return {row[0] for row in connection.execute(self._statement(query), (*self._sink_key, list(handles)))}

    def record_release(self, connection: Connection, handles: Collection[str], checkpoint: int, rows: int) -> None:
        for handle in handles:
            connection.execute(
                self._statement("INSERT INTO {}.released VALUES (%s, %s, %s, %s)"),
                (*self._sink_key, handle, checkpoint),
            )
            self.forget_staged(connection, handle)
        connection.execute(
            self._statement(
                "UPDATE {}.ledger SET last = %s, rows = %s, target = %s, mode = %s WHERE job = %s AND sink = %s"
            ),
            (checkpoint, rows, str(self.target), self.mode, *self._sink_key),
        )

    def forget_released(self, connection: Connection, upto: int) -> None:
        connection.execute(
            self._statement("DELETE FROM {}.released WHERE job = %s AND sink = %s AND checkpoint <= %s"),
            (*self._sink_key, upto),
        )

    def has_other_sink_released(self, connection: Connection) -> bool:
        query = "SELECT EXISTS (SELECT FROM {}.ledger WHERE job = %s AND sink <> %s AND target = %s AND last > 0)"
        return bool(_single_value(connection.execute(self._statement(query), (*self._sink_key, str(self.target)))))

    def supersede(self, connection: Connection) -> None:
        connection.execute(
            self._statement(
                "UPDATE {}.ledger SET superseded_by = %s WHERE target = %s AND job <> %s AND superseded_by IS NULL "
                "AND (last > 0 OR mode = 'replace')"
            ),
            (self.context.job_id, str(self.target), self.context.job_id),
        )

    # ---- staged batches

    def record_staged(self, connection: Connection, handle: str, staging: str) -> None:
        connection.execute(
            self._statement("INSERT INTO {}.staged VALUES (%s, %s, %s, %s)"), (*self._sink_key, handle, staging)
        )

    def forget_staged(self, connection: Connection, handle: str) -> None:
        connection.execute(
            self._statement("DELETE FROM {}.staged WHERE job = %s AND sink = %s AND handle = %s"),
            (*self._sink_key, handle),
        )

    def staged(self, connection: Connection) -> dict[str, tuple[str, int]]:
        if not self.exists(connection):
            return {}
        query = (
            "SELECT handle, staging, coalesce(pg_table_size(to_regclass(format('%%I.%%I', %s::text, staging))), -1) "
            "FROM {}.staged WHERE job = %s AND sink = %s ORDER BY handle"
        )
        rows = connection.execute(self._statement(query), (self.schema, *self._sink_key))
        return {handle: (staging, size) for handle, staging, size in rows}

    def _statement(self, statement: str) -> sql.Composed:
        """Return the statement with the schema's name. A % in the name is doubled, because parameters follow."""
        return sql.SQL(statement).format(sql.Identifier(self.schema.replace("%", "%%")))


def _single_value(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    return None if row is None else row[0]
