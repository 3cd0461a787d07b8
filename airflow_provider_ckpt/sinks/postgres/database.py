"""Transactions on the sink's server, and the interpretation of its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import IsolationLevel, errors

from airflow_provider_ckpt.sinks.database.database_sink import STATEMENT_TIMEOUT
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.postgres.address import Address
from airflow_provider_ckpt.sinks.postgres.copying import StatementWatchdog
from airflow_provider_ckpt.sinks.postgres.refusals import codes

OLDEST = 140000
_TRANSIENT = ("08", "40", "53", "55", "57", "58", "25", "XX")
"""Classes of SQLSTATEs that may pass, for example conflicts, locks, lost connections, a server on standby."""
TRANSACTION_SETTINGS = (
    # with 'off', a server's crash could undo a commit and so lose a release
    "SELECT set_config('synchronous_commit', 'on', true)",
    # a hanging process releases its locks after a minute; a dead process, within a second
    "SELECT set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '60s', true), "
    "set_config('client_connection_check_interval', '1s', true)",
    # the spelling of values
    "SELECT set_config('DateStyle', 'ISO, YMD', true), set_config('TimeZone', 'UTC', true)",
)
"""Settings of every transaction, not of the session, because a pooler of transactions may switch sessions."""
Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]


def is_transient(sqlstate: str | None) -> bool:
    """Return True if another try may succeed. ``sqlstate`` is None if the server did not answer."""
    return sqlstate is None or sqlstate[:2] in _TRANSIENT


_KEEPALIVE = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6, "tcp_user_timeout": 120_000}
"""Settings by which libpq notices a lost machine within two minutes, even during a long statement."""


def _cursors(watchdog: StatementWatchdog) -> type[psycopg.Cursor[Any]]:
    """Return a cursor class whose statements are limited by the watchdog."""

    class TimedCursor(psycopg.Cursor[Any]):
        def execute(self, *args: Any, **kwargs: Any) -> Any:
            with watchdog.limit_time():
                return super().execute(*args, **kwargs)

        def executemany(self, *args: Any, **kwargs: Any) -> None:
            with watchdog.limit_time():
                super().executemany(*args, **kwargs)

    return TimedCursor


class Database:
    """The sink's database, with a new connection for each transaction. No connection is open while Spark works.

    ``timeout``: time limit of one statement, in seconds.
    """

    def __init__(
        self, address: Address, connect: Connect = psycopg.connect, timeout: float = STATEMENT_TIMEOUT
    ) -> None:
        self.address, self.timeout, self._connect = address, timeout, connect

    def __repr__(self) -> str:
        return "Database(***)"

    @contextmanager
    def transaction(
        self, doing: str, failures: Failures, refusal_of: Callable[[Any], Exception]
    ) -> Iterator[Connection]:
        """Open a transaction for the block. Commit at its end, or roll back if the block raises.

        If the reply to a commit was lost, the next reader of the ledger finds out whether the commit happened.
        ``refusal_of``: returns the error to raise for a psycopg error that a retry cannot mend.

        Raises SinkUnavailableError for errors that may pass.
        """
        try:
            connection = self._connect(**self.parameters("ckpt"), prepare_threshold=None)
            with (
                closing(connection),
                StatementWatchdog(connection, self.timeout) as watchdog,
            ):  # uncommitted work is rolled back
                connection.cursor_factory = _cursors(watchdog)
                connection.isolation_level = IsolationLevel.READ_COMMITTED  # sees other commits after a wait for a lock
                self._check_version(connection, failures)
                for statement in TRANSACTION_SETTINGS:
                    connection.execute(statement)
                yield connection
                with watchdog.limit_time():
                    connection.commit()
        except psycopg.Error as error:
            failure = self._failure(error, doing, failures, refusal_of)
        else:
            return
        raise failure from None  # the error of psycopg holds values of rows

    def read_catalog(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query in a separate connection; an empty list if the query fails."""
        with suppress(psycopg.Error), closing(self._connect(**self.parameters("ckpt"))) as connection:
            with StatementWatchdog(connection, self.timeout) as watchdog, watchdog.limit_time():
                return connection.execute(statement.encode(), values).fetchall()
        return []

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the parameters of a connection. ``name``: the connection's name in ``pg_stat_activity``."""
        # The URL or environment may name another encoding, which would change texts.
        always = {"application_name": name, "client_encoding": "UTF8"}
        return {"connect_timeout": 10, **_KEEPALIVE, **self.address.parameters, **always}

    def _check_version(self, connection: Connection, failures: Failures) -> None:
        version = connection.info.server_version
        if version < OLDEST:
            problem = f"its server is PostgreSQL {version // 10000}; 14 is the oldest that the sink works with"
            raise failures.database_refused(problem)

    def _failure(
        self, error: psycopg.Error, doing: str, failures: Failures, refusal_of: Callable[[Any], Exception]
    ) -> Exception:
        if error.sqlstate is not None:
            return failures.unreachable(doing, codes(error)) if is_transient(error.sqlstate) else refusal_of(error)
        if isinstance(error, errors.OperationalError | errors.InterfaceError):  # the server did not answer completely
            return failures.unreachable(doing, self.address.redact(str(error) or type(error).__name__))
        return refusal_of(error)
