"""A sink that releases each checkpoint to a table of PostgreSQL in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_provider_ckpt.connections.plain_text import warn_once
from airflow_provider_ckpt.sinks.database.database_sink import STATEMENT_TIMEOUT, DatabaseSink
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import driver_missing
from airflow_provider_ckpt.sinks.postgres.names import parse_table, problem_of
from airflow_provider_ckpt.sinks.postgres.type_fit import column_type_for
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext

_MAY_LACK_TLS = (
    "sink {sink!r}: its connection has no sslmode, so libpq continues without TLS if the server offers none, and "
    "password and rows can be read on the way. Set sslmode=verify-full with sslrootcert, or sslmode=disable if that is "
    "meant"
)


@dataclass(frozen=True)
class PostgresSink(DatabaseSink):
    """A sink that writes rows to a table of PostgreSQL 14 or newer.

    The sink needs the extra ``postgres`` where drivers and executors run. Executors copy each batch into a staging
    table of its own; the release moves the rows.

    Args:
        table: ``schema.table``. Names are exact.
        mode: ``append`` inserts rows. ``upsert`` replaces the row of the same key, or inserts it. ``replace`` deletes
            all rows of the table in the job's first release, including other writers' rows. After that it inserts.
        key: columns of the key, for ``upsert``. The table needs a unique constraint on exactly these columns.
        conn_id: an Airflow connection, which a driver finds in its environment (``conn_ids=`` of the operator).
        url: instead of ``conn_id``: ``postgresql://user:password@host/database``.
        create: True to create the table from the rows' schema if it is absent.
        staging_schema: the schema of the ledger and the staging tables; created if it is absent.
        statement_timeout: timeout of a statement in seconds; None means an hour. After the timeout the sink cuts the
            connection and tries again later.
    """

    staging_schema: str = "ckpt"

    database: ClassVar[str] = "PostgreSQL"

    def parsed_table(self) -> TableName:
        return parse_table(self.table)

    def problem_of(self, name: str) -> str | None:
        return problem_of(name)

    def has_type_for(self, kind: Any) -> bool:
        return column_type_for(kind) is not None

    def validate_place(self) -> None:
        problem = problem_of(self.staging_schema)
        if problem:
            raise self.invalid("staging_schema", self.staging_schema, problem)
        if self.url is not None and not self.url.startswith(("postgresql://", "postgres://")):
            raise self.invalid("url", "***", "does not begin with postgresql://")

    def bind(self, context: SinkContext) -> BoundSink:
        self.validate()
        try:
            from airflow_provider_ckpt.sinks.postgres.address import Address
            from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
            from airflow_provider_ckpt.sinks.postgres.database import Database
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise driver_missing("PostgresSink", "psycopg", "postgres") from None
        address = self.read_address(Address.of_url, Address.of_connection)
        if address.may_lack_tls:
            warn_once(_MAY_LACK_TLS.format(sink=context.uid))
        database = Database(address, timeout=self.statement_timeout or STATEMENT_TIMEOUT)
        return BoundPostgresSink(self.settings, context, database)
