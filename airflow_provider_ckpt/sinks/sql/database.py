"""Transactions in the sink's database, and the interpretation of its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, TextClause, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.inserting import code_of, error_text

_IDLE = "SET SESSION wait_timeout = 60"
"""Statement that makes the server end an idle session after a minute, because its transaction may block others."""


class _NotConnectedError(Exception):
    """An error of the database driver before the session was open. SQLAlchemy does not wrap this class."""

    def __init__(self, error: Any) -> None:
        super().__init__()
        self.error = error


class Database:
    """The sink's database, with a new connection for each transaction. No connection is open while Spark works."""

    def __init__(self, address: Address, dialect: Dialect, connect: Callable[..., Any] | None = None) -> None:
        self.address, self.dialect = address, dialect
        self._connect = connect or dialect.connect
        # the engine's URL thus has no secrets, and its errors have no values of rows
        self._engine = create_engine(
            dialect.url, creator=self._connect_session, poolclass=NullPool, hide_parameters=True
        )
        dialect.configure_transactions(self._engine)

    def __repr__(self) -> str:
        return "Database(***)"

    @property
    def parameters(self) -> dict[str, Any]:
        return self.dialect.connect_parameters(self.address.parameters)

    def _connect_session(self) -> Any:
        try:
            return self._new_session()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise _NotConnectedError(error) from None

    def _new_session(self) -> Any:
        connection = self.dialect.open_connection(self._connect, self.parameters)
        cursor = connection.cursor()
        for statement in (*self.dialect.session_statements(), *((_IDLE,) if self.dialect.ddl_commits else ())):
            cursor.execute(statement)
        cursor.close()
        return connection

    @contextmanager
    def transaction(
        self, doing: str, failures: Failures, refusal_of: Callable[[Any], Exception]
    ) -> Iterator[Connection]:
        """Open a transaction for the block. Commit at its end, or roll back if the block raises.

        If the reply to a commit was lost, the next reader of the ledger finds out whether the commit happened.
        ``refusal_of``: returns the error to raise for a database error that a retry cannot mend.

        Raises SinkUnavailableError for errors that may pass.
        """
        try:
            with self._engine.connect() as connection:  # uncommitted work is rolled back
                yield connection
                connection.commit()
        except DBAPIError as error:
            failure = self._failure(error.orig, doing, failures, refusal_of)
        except _NotConnectedError as error:
            failure = self._failure(error.error, doing, failures, refusal_of, is_connected=False)
        except OSError as error:  # certificates raise this error; network errors come from the driver
            failure = failures.database_refused(
                f"its TLS settings cannot be used here: {error.strerror or type(error).__name__}"
            )
        else:
            return
        raise failure from None  # the driver's error holds values of rows

    @contextmanager
    def separate_connection(self, connection: Connection) -> Iterator[Connection]:
        """Yield a connection for a CREATE or DROP: a second one if the statement would commit, else ``connection``."""
        if not self.dialect.ddl_commits:
            yield connection
            return
        with self._engine.connect() as ddl_connection:
            yield ddl_connection

    def read_catalog(self, statement: TextClause, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query in a separate connection; an empty list if the query fails."""
        with suppress(DBAPIError, _NotConnectedError), self._engine.connect() as connection:
            return list(connection.execute(statement, values))
        return []

    def _failure(
        self,
        error: Any,
        doing: str,
        failures: Failures,
        refusal_of: Callable[[Any], Exception],
        *,
        is_connected: bool = True,
    ) -> Exception:
        code = code_of(error)
        if code == 0 or 2000 <= code < 2100:  # the server did not answer completely, so the text holds no values
            message = " ".join(map(str, error.args[1:])) or type(error).__name__
            if "timed out" in message and "read_timeout" in self.parameters:
                message += f" (statement_timeout is {self.parameters['read_timeout']:g} s)"
            return failures.unreachable(doing, self.address.redact(f"error {code}, {message}"))
        if not self.dialect.is_transient(code, is_connected=is_connected):
            return refusal_of(error)
        absence = self.dialect.absence(self.address.parameters)
        return failures.unreachable(doing, absence or self.address.redact(error_text(error)))
