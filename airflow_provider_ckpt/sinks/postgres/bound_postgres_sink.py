"""A PostgreSQL sink bound to a job: it stages, releases and cleans up in its database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from psycopg import sql

from airflow_provider_ckpt.sinks.database.bound_database_sink import BoundDatabaseSink, PartitionResults
from airflow_provider_ckpt.sinks.database.database_settings import DatabaseSettings
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Columns, Problem
from airflow_provider_ckpt.sinks.postgres.database import Connection, Database
from airflow_provider_ckpt.sinks.postgres.ledger import PostgresLedger
from airflow_provider_ckpt.sinks.postgres.names import staging_table
from airflow_provider_ckpt.sinks.postgres.refusals import explain
from airflow_provider_ckpt.sinks.postgres.release_statements import PostgresReleaseStatements
from airflow_provider_ckpt.sinks.postgres.staging import copy_rows, create_staging, create_target, own_columns
from airflow_provider_ckpt.sinks.postgres.table_checks import lacking_on_ledger, lacking_on_schema, problems
from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable, read_table, types_of
from airflow_provider_ckpt.sinks.sink import SinkContext, StageRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BoundPostgresSink(BoundDatabaseSink[Connection]):
    """A ``PostgresSink`` that is bound to one job. The transaction of a release also drops the staging tables."""

    handle_format = "airflow-provider-ckpt/postgres-handle"

    def __init__(self, settings: DatabaseSettings, context: SinkContext, database: Database) -> None:
        self._database = database
        ledger = PostgresLedger(settings.schema, context, settings.table, settings.mode)
        failures = Failures(context, str(settings.table), f"{settings.schema}.ledger")
        super().__init__(settings, context, ledger, failures)

    def _open(self, doing: str, refusal_of: Callable[[Any], Exception]) -> AbstractContextManager[Connection]:
        return self._database.transaction(doing, self._failures, refusal_of)

    def _explain(self, error: Any) -> str:
        return explain(error, self._table, self._database.read_catalog)

    # ---- before the first batch

    def _check_schema(self, connection: Connection) -> None:
        schema = self._schema
        lacking = lacking_on_schema(connection, schema)
        if lacking is None:
            privilege = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone()
            advice = (
                f"CREATE SCHEMA {schema} AUTHORIZATION <the user of the connection>, or name another staging_schema"
            )
            if privilege is None or not privilege[0]:
                raise self._failures.mismatch(
                    f"schema {schema!r} does not exist, and its user may not create it", advice
                )
            return
        if lacking:
            rights = ", ".join(lacking)
            advice = f"GRANT {rights} ON SCHEMA {schema}, or name another staging_schema"
            raise self._failures.mismatch(f"its user lacks {rights} on the schema {schema!r}", advice)
        for table, rights in lacking_on_ledger(connection, schema):
            problem = f"its user lacks {rights} on the ledger's table {table} in the schema {schema!r}"
            raise self._failures.mismatch(
                problem, f"GRANT {rights} ON {schema}.{table}, or name another staging_schema"
            )

    def _check_creatable(self, connection: Connection) -> None:
        self._refuse_absent()
        schema = self._table.schema
        lacking = lacking_on_schema(connection, schema)
        if lacking is None or lacking:
            problem = "does not exist" if lacking is None else "is not one in which its user may create tables"
            raise self._failures.mismatch(f"there is no such table, and its schema {schema!r} {problem}", "Create it")

    def _problems(self, connection: Connection, columns: Columns) -> Iterable[Problem] | None:
        table = read_table(connection, self._table)
        return None if table is None else self._problems_of(columns, table)

    def _exists(self, connection: Connection) -> bool:
        return read_table(connection, self._table) is not None

    def _is_empty(self, connection: Connection) -> bool:
        """Return True if the table is empty; False if it has rows, or a policy may hide rows.

        The search is limited to 10 s, because dead rows may slow it. After that the database raises an error.
        """
        table = read_table(connection, self._table)
        if table is None or table.hides_rows:
            return False
        connection.execute("SELECT set_config('statement_timeout', '10s', true)")
        target = sql.Identifier(self._table.schema, self._table.name)
        return connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(target)).rowcount == 0

    def _problems_of(self, columns: Columns, table: TargetTable) -> Iterable[Problem]:
        return problems(columns, table, self._settings.mode, self._settings.key)

    # ---- stage

    def _stage(
        self, frame: DataFrame, request: StageRequest, columns: Columns
    ) -> tuple[LedgerRow, str, PartitionResults]:
        name = staging_table(self._context.job_id, self._context.uid, request.id)
        staging, extra_columns = sql.Identifier(self._schema, name), own_columns(self._settings.mode)

        def make() -> tuple[LedgerRow, dict[str, str]]:
            with self._transaction("create a staging table") as connection:
                row = self._existing_row(connection)
                target = self._target(connection, columns, row)
                create_staging(connection, staging, self._table, target, columns, extra_columns)
                # Read the staging table's own types, because the target may have been altered in between.
                types = types_of(connection, TableName(self._schema, name))
                self._ledger.record_staged(connection, request.id, name)
            return row, types

        row, types = self._make_with_retries(request, make)
        return (
            row,
            name,
            copy_rows(frame, request, self._database, staging, columns, types, extra_columns, self._failures),
        )

    def _target(self, connection: Connection, columns: Columns, row: LedgerRow) -> TargetTable:
        """Return the target table as it is now. If it is absent, create it.

        Raises OutputLostError if the absent table had rows of the last release.
        """
        table = read_table(connection, self._table)
        if table is None:
            self._rules.refuse_lost(row)
            self._check_creatable(connection)
            self._ledger.lock_target(connection, exclusive=True)  # excludes another subtask that creates it
            table = read_table(connection, self._table)
        if table is None:
            create_target(connection, self._table, columns, self._settings.key)
            table = read_table(connection, self._table)
            assert table is not None
        self._refuse(self._problems_of(columns, table))
        return table

    # ---- release

    def _release_statements(self, connection: Connection) -> PostgresReleaseStatements:
        return PostgresReleaseStatements(connection, self._table, self._schema, self._settings.mode, self._settings.key)

    def _drop(self, connection: Connection, handle: str) -> None:
        name = staging_table(self._context.job_id, self._context.uid, handle)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(self._schema, name)))
