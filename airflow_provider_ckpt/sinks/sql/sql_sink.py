"""A sink that releases each checkpoint to a table of MySQL, MariaDB or SQLite in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_provider_ckpt.connections.plain_text import warn_once
from airflow_provider_ckpt.sinks.database.database_sink import DatabaseSink
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import driver_missing
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext
from airflow_provider_ckpt.sinks.spark_types import fits_in_json
from airflow_provider_ckpt.sinks.sql.dialect_names import kind_of, refused_dialect
from airflow_provider_ckpt.sinks.sql.names import parse_table, problem_of

_MAY_LACK_TLS = (
    "sink {sink!r}: its connection has no ssl_ca, so PyMySQL continues without TLS if the server offers none, and rows "
    "can be read on the way. Set ssl_ca and ssl_verify_identity=true, or ssl_disabled=true if that is intended"
)


@dataclass(frozen=True)
class SqlSink(DatabaseSink):
    """A sink that writes rows to a table of MariaDB 10.5, MySQL 8.0.19 or newer, or of an SQLite file.

    Other databases are refused. The sink needs the extra ``sql`` where drivers and executors run. Executors insert each
    batch into a staging table of its own; the release moves the rows.

    Args:
        table: ``orders``, in the database of the connection, or ``shop.orders``. Names are exact.
        mode: ``append`` inserts rows. ``upsert`` replaces the row of the same key, or inserts it. ``replace`` deletes
            all rows of the table in the job's first release, including other writers' rows. After that it inserts.
        key: columns of the key, for ``upsert``. The table needs a unique index on exactly these columns.
        conn_id: an Airflow connection, which a driver finds in its environment (``conn_ids=`` of the operator).
        url: instead of ``conn_id``: ``mysql+pymysql://user:password@host/database``, or ``sqlite:////folder/file.db``
            (with a local master only).
        create: True to create the table from the rows' schema if it is absent.
        staging_schema: the existing database for the ledger and the staging tables; None means the database of the
            table.
        statement_timeout: timeout of a statement in seconds; None means an hour. After the timeout the sink cuts the
            connection and tries again later. Overrides ``read_timeout`` of the connection. SQLite ignores it.
    """

    database: ClassVar[str] = "MySQL or SQLite"

    def parsed_table(self) -> TableName:
        return parse_table(self.table)

    def problem_of(self, name: str) -> str | None:
        return problem_of(name)

    def has_type_for(self, kind: Any) -> bool:
        return fits_in_json(kind)

    def validate_place(self) -> None:
        problem = None if self.staging_schema is None else problem_of(self.staging_schema)
        if problem:
            raise self.invalid("staging_schema", self.staging_schema, problem)
        if self.url is None:
            return
        scheme, separator, _ = self.url.partition("://")
        if not separator:
            raise self.invalid("url", "***", "has no kind in front; write mysql+pymysql://… or sqlite:///…")
        if kind_of(scheme) is None:
            raise refused_dialect("url", scheme)
        if kind_of(scheme) == "sqlite" and self.staging_schema is not None:
            raise self.invalid(
                "staging_schema", self.staging_schema, "does not exist in a file of SQLite, which has one schema only"
            )

    def bind(self, context: SinkContext) -> BoundSink:
        self.validate()
        try:
            from airflow_provider_ckpt.sinks.sql.address import Address
            from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink, open_database
        except ModuleNotFoundError as error:
            if error.name not in ("sqlalchemy", "pymysql"):
                raise
            raise driver_missing("SqlSink", error.name, "sql") from None
        address = self.read_address(Address.of_url, Address.of_connection)
        if self.statement_timeout is not None:
            address = address.with_statement_timeout(self.statement_timeout)
        if address.may_lack_tls:
            warn_once(_MAY_LACK_TLS.format(sink=context.uid))
        return BoundSqlSink(self.settings, context, open_database(address))
