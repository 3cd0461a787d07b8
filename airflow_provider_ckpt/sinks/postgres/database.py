"""Transactions on the sink's server, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import IsolationLevel, errors

from airflow_provider_ckpt.sinks.database.database_sink import STATEMENT_TIMEOUT
from airflow_provider_ckpt.sinks.database.failures import Failures
from airflow_provider_ckpt.sinks.postgres.address import Address
from airflow_provider_ckpt.sinks.postgres.copying import Patience
from airflow_provider_ckpt.sinks.postgres.refusals import codes

OLDEST = 140000
_PASSING = ("08", "40", "53", "55", "57", "58", "25", "XX")
"""Classes of SQLSTATEs that may be gone with the next try: connection, conflict, resources, locks, an operator's
intervention, the system; a session that stood idle, a server that is a standby for now."""
SETTLE = (
    # a commit that the server's crash undoes would be a release that is lost (tried: 'off' lost one)
    "SELECT set_config('synchronous_commit', 'on', true)",
    # a process that stands still in its transaction frees the others; one that is gone is found out within a second
    "SELECT set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '60s', true), "
    "set_config('client_connection_check_interval', '1s', true)",
    # how values are written
    "SELECT set_config('DateStyle', 'ISO, YMD', true), set_config('TimeZone', 'UTC', true)",
)
"""With each transaction and not with the session: a pooler of transactions hands out another session."""
Connect = Callable[..., "psycopg.Connection[Any]"]


def is_passing(sqlstate: str | None) -> bool:
    """None: there was no answer."""
    return sqlstate is None or sqlstate[:2] in _PASSING


_DEAD = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6, "tcp_user_timeout": 120_000}
"""Of libpq: a machine that is gone is noticed within two minutes, however long a statement may take."""


def _cursors(server: Patience) -> type[psycopg.Cursor[Any]]:
    """Whose statements it answers in time."""

    class Patient(psycopg.Cursor[Any]):
        def execute(self, *given: Any, **more: Any) -> Any:
            with server.answered():
                return super().execute(*given, **more)

        def executemany(self, *given: Any, **more: Any) -> None:
            with server.answered():
                super().executemany(*given, **more)

    return Patient


class Database:
    """``connect``: psycopg's. ``patience``: seconds that the server may take for one statement. One connection for each
    transaction: none is held while Spark works."""

    def __init__(
        self, address: Address, connect: Connect = psycopg.connect, patience: float = STATEMENT_TIMEOUT
    ) -> None:
        self.address, self.patience, self._connect = address, patience, connect

    def __repr__(self) -> str:
        return "Database(***)"

    @contextmanager
    def transaction(
        self, doing: str, failures: Failures, refused: Callable[[Any], Exception]
    ) -> Iterator[psycopg.Connection[Any]]:
        """Commit at the end of the block, and roll back if it raises.

        ``refused``: returns the error for an error of psycopg that does not pass. Raises DatabaseUnreachableError for
        errors that may pass. If the reply to a commit was lost, the next reader of the ledger finds out whether it
        happened.
        """
        try:
            connection = self._connect(**self.parameters("ckpt"), prepare_threshold=None)
            with closing(connection), Patience(connection, self.patience) as server:  # what is not committed is undone
                connection.cursor_factory = _cursors(server)
                connection.isolation_level = IsolationLevel.READ_COMMITTED  # others' commits are seen behind a lock
                self._check_version(connection, failures)
                for statement in SETTLE:
                    connection.execute(statement)
                yield connection
                with server.answered():
                    connection.commit()
        except psycopg.Error as error:
            failure = self._failure(error, doing, failures, refused)
        else:
            return
        raise failure from None  # the error of psycopg holds values of rows

    def read_catalog(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query in a connection of its own, and none if that fails."""
        with suppress(psycopg.Error), closing(self._connect(**self.parameters("ckpt"))) as connection:
            with Patience(connection, self.patience) as server, server.answered():
                return connection.execute(statement.encode(), values).fetchall()
        return []

    def parameters(self, name: str) -> dict[str, Any]:
        """Of a connection; ``name``: by which ``pg_stat_activity`` shows it."""
        # in another encoding of texts, which the URL or the environment may name, they would be read as other texts
        always = {"application_name": name, "client_encoding": "UTF8"}
        return {"connect_timeout": 10, **_DEAD, **self.address.parameters, **always}

    def _check_version(self, connection: psycopg.Connection[Any], failures: Failures) -> None:
        version = connection.info.server_version
        if version < OLDEST:
            problem = f"its server is PostgreSQL {version // 10000}; 14 is the oldest that the sink works with"
            raise failures.unfit(problem)

    def _failure(
        self, error: psycopg.Error, doing: str, failures: Failures, refused: Callable[[Any], Exception]
    ) -> Exception:
        if error.sqlstate is not None:
            return failures.unreachable(doing, codes(error)) if is_passing(error.sqlstate) else refused(error)
        if isinstance(error, errors.OperationalError | errors.InterfaceError):  # nobody answered, or not to the end
            return failures.unreachable(doing, self.address.redact(str(error) or type(error).__name__))
        return refused(error)
