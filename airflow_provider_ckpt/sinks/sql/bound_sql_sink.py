"""A SQL sink bound to a job: it stages, releases and cleans up in its database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, MetaData, Table, literal, select
from sqlalchemy.schema import CreateTable, DropTable

from airflow_provider_ckpt.sinks.database.bound_database_sink import BoundDatabaseSink, PartitionResults
from airflow_provider_ckpt.sinks.database.database_settings import DatabaseSettings
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Columns, Problem, rights_needed
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput, StageRequest
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.database import Database
from airflow_provider_ckpt.sinks.sql.ledger import SqlLedger
from airflow_provider_ckpt.sinks.sql.mysql_dialect import MySQLDialect
from airflow_provider_ckpt.sinks.sql.names import staging_table
from airflow_provider_ckpt.sinks.sql.release_statements import SqlReleaseStatements
from airflow_provider_ckpt.sinks.sql.sqlite_dialect import SQLiteDialect
from airflow_provider_ckpt.sinks.sql.staging import create_target, insert_rows, staging_table_of
from airflow_provider_ckpt.sinks.sql.table_checks import problems
from airflow_provider_ckpt.sinks.sql.tables import existing_table, named
from airflow_provider_ckpt.sinks.sql.target_table import SqlTable, TriggerWrites

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
_UNKNOWN_WRITES = (
    "sink %r of job %r: the user of the connection may not see which tables the triggers of table %s write to (%s). If "
    "one of these has an engine without transactions (MyISAM, Aria, MEMORY), a release that is tried again writes rows "
    "there twice. GRANT TRIGGER on the table and SELECT on those tables, and the sink checks it"
)


class BoundSqlSink(BoundDatabaseSink[Connection]):
    """A ``SqlSink`` that is bound to one job.

    The transaction of a release contains no CREATE and no DROP, because in MySQL they would commit the transaction. A
    staging table is dropped after its release. If the process dies first, a later release or clean-up drops the table.
    """

    handle_format = "airflow-provider-ckpt/sql-handle"

    def __init__(self, settings: DatabaseSettings, context: SinkContext, database: Database) -> None:
        """Bind the sink. A table or ledger without a schema in ``settings`` is in the database of the address."""
        self._database, self._dialect = database, database.dialect
        table = TableName(settings.table.schema or database.address.database, settings.table.name)
        settings = replace(settings, table=table, schema=settings.schema or table.schema)
        self._sql_ledger = SqlLedger(settings.schema, context, table, settings.mode, self._dialect)
        failures = Failures(context, str(table), f"{settings.schema}.ckpt_ledger")
        super().__init__(settings, context, self._sql_ledger, failures)

    def _open(self, doing: str, refusal_of: Callable[[Any], Exception]) -> AbstractContextManager[Connection]:
        return self._database.transaction(doing, self._failures, refusal_of)

    def _explain(self, error: Any) -> str:
        return self._dialect.explain(error, self._table, self._settings.key, self._database.read_catalog)

    # ---- before the first batch

    def _check_schema(self, connection: Connection) -> None:
        problem = self._dialect.server_problem(connection)
        if problem is not None:
            raise self._failures.database_refused(problem)
        for schema in dict.fromkeys((self._table.schema, self._schema)):
            mismatch = self._dialect.schema_problem(connection, schema)
            if mismatch is not None:
                raise self._failures.mismatch(*mismatch)
        mismatch = self._dialect.name_problem(connection, self._table)
        if mismatch is not None:
            raise self._failures.mismatch(*mismatch)
        for name in self._sql_ledger.unsafe_tables(connection):
            problem = f"the ledger's table {name} has an engine without transactions"
            raise self._failures.mismatch(problem, f"ALTER TABLE {name} ENGINE=InnoDB")

        # Without this check, missing rights would show at the first batch; a missing DROP, after the first release.
        lacking_rights = self._missing_rights(connection, self._schema)
        lacking = ", ".join(
            right for right in lacking_rights if not self._is_granted_on_ledger(connection, right, lacking_rights)
        )
        if lacking:
            problem = f"its user lacks {lacking} in the database {self._schema!r}, where rows are staged"
            raise self._failures.mismatch(problem, f"GRANT {lacking} ON {self._schema}.*, or name a staging_schema")

    def _missing_rights(self, connection: Connection, schema: str) -> list[str]:
        """Return the rights that the database user lacks to stage rows in the schema; empty if none is missing."""
        return list(self._dialect.lacking_to_stage(connection, TableName(schema, staging_table("", "", ""))))

    def _is_granted_on_ledger(self, connection: Connection, right: str, lacking: Collection[str]) -> bool:
        """Return True if the right is UPDATE or DELETE, and the user has it on the ledger's tables.

        Staging tables need neither of these rights.
        """
        tables = self._sql_ledger.tables
        target_tables = {"UPDATE": (tables.ledger, tables.targets), "DELETE": (tables.released, tables.staged)}.get(
            right
        )
        if target_tables is None or "SELECT" in lacking or not self._sql_ledger.exists(connection):
            return False
        keys = [(table, [column.name for column in table.primary_key]) for table in target_tables]
        return not any([*self._dialect.lacking_rights(connection, *key, (right,))] for key in keys)

    def _check_creatable(self, connection: Connection) -> None:
        self._refuse_absent()
        schema = self._table.schema
        if "CREATE" in self._missing_rights(connection, schema):
            problem = f"there is no such table, and its user may create none in the database {schema!r}"
            raise self._failures.mismatch(problem, "Create it")

    def _problems(self, connection: Connection, columns: Columns) -> Iterable[Problem] | None:
        table = self._dialect.read_table(connection, self._table)
        return None if table is None else self._problems_of(connection, columns, table)

    def _exists(self, connection: Connection) -> bool:
        return self._dialect.read_table(connection, self._table) is not None

    def _is_empty(self, connection: Connection) -> bool:
        any_row = select(literal(1)).select_from(existing_table(self._table, [])).limit(1)
        return connection.execute(any_row).first() is None

    def _problems_of(self, connection: Connection, columns: Columns, table: SqlTable) -> Iterable[Problem]:
        yield from problems(columns, table, self._dialect, self._settings.key)
        yield from self._trigger_writes(connection).problems()
        names = [name for name, _ in columns]
        target, needed = existing_table(self._table, names), rights_needed(self._settings.mode)
        lacking = ", ".join(self._dialect.lacking_rights(connection, target, names, needed))
        if lacking:
            yield f"the user of the connection lacks {lacking} on it", f"GRANT {lacking}"

    def _trigger_writes(self, connection: Connection) -> TriggerWrites:
        return self._dialect.trigger_writes(connection, self._table, rights_needed(self._settings.mode))

    def check_target(self) -> None:
        absence = self._dialect.absence(self._database.address.parameters)
        if absence is not None:
            raise self._failures.database_refused(absence)

    def check_rows(self, given: SinkInput) -> None:
        self.check_target()
        super().check_rows(given)
        with self._transaction("read its triggers") as connection:
            unknown = ", ".join(self._trigger_writes(connection).unknown)
        if unknown:
            log.warning(_UNKNOWN_WRITES, self._context.uid, self._context.job_id, self._table, unknown)

    # ---- stage

    def _stage(
        self, frame: DataFrame, request: StageRequest, columns: Columns
    ) -> tuple[LedgerRow, str, PartitionResults]:
        self._refuse_cluster(frame)
        name = staging_table(self._context.job_id, self._context.uid, request.id)
        row, staging, target = self._make_with_retries(request, lambda: self._make(name, request, columns))
        results = insert_rows(frame, request, self._database, staging, columns, target, self._failures)
        return row, name, results

    def _make(self, name: str, request: StageRequest, columns: Columns) -> tuple[LedgerRow, Table, SqlTable]:
        with self._transaction("check its table") as connection:
            row = self._existing_row(connection)
            target = self._target(connection, columns, row)
            self._ledger.record_staged(connection, request.id, name)
        staging = staging_table_of(TableName(self._schema, name), target, columns)
        with self._transaction("create a staging table") as connection:
            if not self._sql_ledger.lock_staged(connection, request.id):
                raise self._failures.ledger_lost(f"batch {request.id} is no longer recorded: is its attempt fenced?")
            with self._database.separate_connection(connection) as ddl_connection:
                ddl_connection.execute(CreateTable(staging))
        return row, staging, target

    def _refuse_cluster(self, frame: DataFrame) -> None:
        if self._database.address.kind != "sqlite":
            return
        master = frame.sparkSession.conf.get("spark.master") or ""
        if not master.startswith("local") or master.startswith("local-cluster"):
            raise self._failures.database_refused(
                f"Spark's master is {master!r}, whose executors do not share a file of SQLite with the driver; use "
                "local[n], or MySQL, MariaDB or PostgreSQL"
            )

    def _target(self, connection: Connection, columns: Columns, row: LedgerRow) -> SqlTable:
        """Return the target table as it is now. If it is absent, create it.

        Raises OutputLostError if the absent table had rows of the last release.
        """
        table = self._dialect.read_table(connection, self._table)
        if table is None:
            self._rules.refuse_lost(row)
            self._check_creatable(connection)
            create_target(connection, self._table, columns, self._settings.key, self._column_types(connection, columns))
            table = self._dialect.read_table(connection, self._table)
            assert table is not None
        self._refuse(self._problems_of(connection, columns, table))
        return table

    def _column_types(self, connection: Connection, columns: Columns) -> dict[str, str]:
        types_by_column = {}
        for name, kind in columns:
            column_type = self._dialect.column_type_for(connection, kind, is_key=name in self._settings.key)
            if column_type is None:
                problem = f"no column of {self._dialect.name} can be made for column {name!r}"
                raise self._failures.mismatch(problem, "Cast it in the job, or make the table yourself")
            types_by_column[name] = column_type
        return types_by_column

    # ---- release

    def _release_statements(self, connection: Connection) -> SqlReleaseStatements:
        return SqlReleaseStatements(connection, self._dialect, self._settings)

    def _undropped(self, connection: Connection) -> list[str]:
        return self._sql_ledger.undropped(connection)

    def _drop(self, connection: Connection, handle: str) -> None:
        name = staging_table(self._context.job_id, self._context.uid, handle)
        if self._ledger.exists(connection):
            self._sql_ledger.lock_staged(connection, handle)
        with self._database.separate_connection(connection) as ddl_connection:
            ddl_connection.execute(
                DropTable(Table(named(name), MetaData(), schema=named(self._schema)), if_exists=True)
            )


def open_database(address: Address, connect: Callable[..., Any] | None = None) -> Database:
    """Return the database at an address. ``connect`` replaces the function of the database driver."""
    return Database(address, MySQLDialect() if address.kind == "mysql" else SQLiteDialect(), connect)
