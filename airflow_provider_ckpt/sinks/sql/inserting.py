"""The code that inserts a partition into a staging table on an executor.

The module is sent by value. The executor needs pyarrow and, for MySQL, PyMySQL, but not this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

_MISSING = (
    "PyMySQL is not installed where this executor runs. Install it with the Python of the executors: "
    "pip install 'airflow-provider-ckpt[sql]', or 'PyMySQL' alone"
)
_LARGEST = 1_000_000
"""Maximum size of one INSERT in bytes. The limit is lower if the server accepts less."""
NO_TLS = 2026
"""MySQL's code for a TLS connection that cannot be made."""
LOGIN_CODES = (1045, 1130, 1698, 1820, 1862, 3118, 3955, 4151)
"""Codes of MySQL and MariaDB for a refused login: user, password, host, an expired password, a locked account."""
DATABASE_CODES = (1044, 1049)
"""MySQL's codes for a refused database, either the one of the login or one that a statement names."""
_NAME_CODES = (*LOGIN_CODES, *DATABASE_CODES, 1050, 1051, 1054, 1091, 1109, 1142, 1143, 1146, 1286, 1364, 1370)
"""Codes of MySQL's errors whose messages contain names but no values."""
_NAMES = re.compile(
    r"Column '([^']+)' cannot be null|.* for key '([^']*)'|.* for column (?:`[^`]*`\.)*[`']([^`']+)[`'] at row \d+|"
    r".*CONSTRAINT `([^`]+)` (?:FOREIGN|failed).*|Check constraint '([^']*)' is violated.*",
    re.DOTALL,
)
"""Pattern of messages that name a column, a key or a constraint."""


_TRANSIENT_SQLITE_CODES = (5, 6, 9, 10, 13, 14, 15)
"""SQLite's codes for errors that may pass: BUSY, LOCKED, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL."""
_TRANSIENT_SQLITE_TEXTS = (
    *("database is locked", "database table is locked", "database schema is locked", "interrupted", "disk I/O error"),
    *("database or disk is full", "unable to open database file", "locking protocol"),
)
"""SQLite's error texts for ``_TRANSIENT_SQLITE_CODES``, up to the colon before an object's name."""


class _Refused(Exception):
    """The error for a value that a column cannot store unchanged. ``column`` and ``problem`` do not show the value."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(column, problem)
        self.report = {"code": -1, "text": f"column {column}: {problem}", "is_connected": True}


def inserter(
    kind: str, parameters: Mapping[str, Any], session_statements: Sequence[str], insert: str, limits: Sequence[Any]
) -> Any:
    """Return a function that inserts a partition on an executor.

    Args:
        kind: mysql or sqlite.
        insert: the INSERT for the frame's columns, the task attempt and the row's number; for MySQL up to
            ``VALUES``.
        limits: (name, True if NULL is refused, maximum characters, maximum bytes) of each column. None: no limit.
    """

    def insert_partition(task_attempt: int, batches: Iterable[Any]) -> dict[str, Any]:
        """Insert the rows of a partition, with a commit for each batch. ``task_attempt``: attempt id of Spark's task.

        A task that ran twice has two attempts, and only the successful attempt's rows are released. So each batch may
        be committed alone, and no lock is held while Spark computes the next batch. Refusals of the database are
        returned, not raised, because Spark would repeat the task in vain.
        """
        rows, session = 0, None
        errors = _driver_errors(kind)
        try:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                if session is None:
                    session = _connect(kind, parameters, session_statements)
                columns = [_values(kind, column, limit) for column, limit in zip(batch.columns, limits, strict=True)]
                columns.append([task_attempt] * batch.num_rows)
                columns.append(list(range(rows, rows + batch.num_rows)))
                _write(kind, session, insert, columns)
                session.commit()
                rows += batch.num_rows
        except _Refused as error:
            return {"task_attempt": task_attempt, "rows": 0, "error": error.report}
        except errors as error:
            refusal = {"code": code_of(error), "text": error_text(error), "is_connected": session is not None}
            return {"task_attempt": task_attempt, "rows": 0, "error": refusal}
        finally:
            if session is not None:
                session.close()  # uncommitted rows are rolled back
        return {"task_attempt": task_attempt, "rows": rows}

    return insert_partition


def _driver_errors(kind: str) -> Any:
    if kind == "sqlite":
        import sqlite3

        return sqlite3.Error
    try:
        import pymysql
    except ImportError:
        raise ImportError(_MISSING) from None
    return pymysql.Error


def open_session(connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """Return a session of PyMySQL, with a timeout for a server that accepts the connection and stays silent.

    A silent server is abandoned after ``connect_timeout``, like an unreachable one. A statement may take
    ``read_timeout``. PyMySQL has one limit for login and statements. So this module opens the socket, and closes it if
    the login takes too long.

    Raises OperationalError (2026) if the server has no TLS and the parameters demand it.
    """
    session = _connect_with_timeout(connect, parameters)
    if _wants_tls(parameters) and not session._secure:
        # Older versions of PyMySQL ignore that the server has no TLS, and send everything unencrypted.
        from pymysql.err import OperationalError

        session.close()
        raise OperationalError(NO_TLS, "SSL is required but the server doesn't support it")
    return session


def _wants_tls(parameters: Mapping[str, Any]) -> bool:
    settings = ("ssl", "ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity")
    return not parameters.get("ssl_disabled") and any(parameters.get(name) for name in settings)


def _connect_with_timeout(connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    import socket
    import threading

    timeout = parameters["connect_timeout"]
    if parameters.get("unix_socket"):  # PyMySQL counts a Unix socket as safe only if it has opened it itself
        session = connect(**{**parameters, "read_timeout": min(timeout, parameters["read_timeout"])})
        # There is no public setting. All current versions read this value for each answer.
        session._read_timeout = parameters["read_timeout"]
        return session
    session = connect(**parameters, defer_connect=True)
    sock = _open_socket(session, timeout)
    watched = sock.dup()  # TLS takes over the other descriptor

    def shut_down() -> None:
        try:
            watched.shutdown(socket.SHUT_RDWR)
        except OSError:  # the session connected or was lost at this moment
            pass

    timer = threading.Timer(timeout, shut_down)
    timer.daemon = True
    timer.start()
    try:
        session.connect(sock)
    finally:
        timer.cancel()
        watched.close()
    return session


def _open_socket(session: Any, timeout: float) -> Any:
    """Return a socket to the server with PyMySQL's settings. Keepalives reveal a lost machine within two minutes."""
    import socket

    from pymysql.err import OperationalError

    try:
        sock = socket.create_connection((session.host, session.port), timeout)
    except OSError as error:
        raise OperationalError(2003, f"Can't connect to MySQL server on {session.host!r} ({error})") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 120_000}
    for name, value in wanted.items():
        if hasattr(socket, name):  # exists on Linux only
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


def _connect(kind: str, parameters: Mapping[str, Any], session_statements: Sequence[str]) -> Any:
    if kind == "sqlite":
        import sqlite3

        session: Any = sqlite3.connect(**parameters)
    else:
        import pymysql

        session = open_session(pymysql.connect, parameters)
    cursor = session.cursor()
    for statement in session_statements:
        cursor.execute(statement)
    return session


# ---- values


def _values(database: str, column: Any, limit: Any) -> list[Any]:
    """Return the values of a column as Python objects.

    Raises _Refused for a value that the database would silently cut or change.
    """
    import pyarrow
    from pyarrow import compute

    name, not_null, characters, octets = limit
    if not_null and column.null_count:
        raise _Refused(name, "NULL, and it is NOT NULL")
    kind = column.type
    if pyarrow.types.is_floating(kind) and compute.any(compute.is_nan(column)).as_py():
        raise _Refused(name, "NaN, which the database does not have")
    if pyarrow.types.is_floating(kind) and database == "mysql" and compute.any(compute.is_inf(column)).as_py():
        raise _Refused(name, "an infinity, which MySQL does not have")
    # Even a strict server cuts trailing blanks.
    if characters is not None and (compute.max(compute.utf8_length(column)).as_py() or 0) > characters:
        raise _Refused(name, f"longer than {characters} characters")
    if octets is not None and (compute.max(compute.binary_length(column)).as_py() or 0) > octets:
        raise _Refused(name, f"longer than {octets} bytes")
    if pyarrow.types.is_timestamp(kind) and kind.tz is not None:
        # an instant without its zone, because the session's zone is UTC
        column = column.view(pyarrow.int64()).view(pyarrow.timestamp(kind.unit))
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        raise _Refused(name, "a text that is not UTF-8") from None
    except (OverflowError, ValueError):
        raise _Refused(name, "a date after the year 9999, or before 1") from None


# ---- statements


def _write(kind: str, session: Any, insert: str, columns: Sequence[list[Any]]) -> None:
    cursor = session.cursor()
    if kind == "sqlite":
        # A prepared statement has one parameter a column, so no number of rows exceeds SQLite's limit of parameters.
        cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(insert, zip(*(_for_sqlite(values) for values in columns), strict=True))
        return
    cursor.execute("SELECT @@max_allowed_packet")
    max_bytes = int(cursor.fetchone()[0]) - 1024
    for statement, size in _statements(insert, _row_literals(session, columns), min(_LARGEST, max_bytes)):
        if size > max_bytes:
            raise _Refused("*", f"a row of {size} bytes, and the server's max_allowed_packet is {max_bytes + 1024}")
        cursor.execute(statement)


def _statements(insert: str, rows: Iterable[str], max_bytes: int) -> Iterator[tuple[str, int]]:
    """Yield (INSERT of many rows, its bytes). Only an INSERT of one row may exceed ``max_bytes``."""
    rows_to_write: list[str] = []
    size = head = len(insert.encode())
    for row in rows:
        row_size = len(row.encode("utf-8", "surrogateescape")) + 1
        if rows_to_write and size + row_size > max_bytes:
            yield insert + ",".join(rows_to_write), size
            rows_to_write, size = [], head
        rows_to_write.append(row)
        size += row_size
    if rows_to_write:
        yield insert + ",".join(rows_to_write), size


def _row_literals(session: Any, columns: Sequence[list[Any]]) -> Iterator[str]:
    """Yield each row as an SQL literal. Plain types are written here, because PyMySQL is slow."""
    cursor = session.cursor()
    for row in zip(*(_value_literals(cursor, values) for values in columns), strict=True):
        yield f"({','.join(row)})"


def _value_literals(cursor: Any, values: Sequence[Any]) -> Iterator[str]:
    """Return the values as SQL literals. ``values`` have one type, or are None."""
    import datetime
    import decimal

    plain: dict[type, Callable[[Any], str]] = {
        int: str,
        # without the exponent it would be a DECIMAL
        float: lambda value: f"{value!r}e0" if "e" not in repr(value) else repr(value),
        decimal.Decimal: lambda value: format(value, "f"),
        datetime.datetime: lambda value: f"'{value.isoformat(' ')}'",
    }
    to_sql = plain.get(type(next((value for value in values if value is not None), None)))
    if to_sql is None:
        return (cursor.mogrify("%s", (value,)) for value in values)
    return ("NULL" if value is None else to_sql(value) for value in values)


def _for_sqlite(values: list[Any]) -> list[Any]:
    import datetime
    import decimal

    def as_sqlite(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ", "microseconds")
        if isinstance(value, datetime.date):
            return value.isoformat()
        return format(value, "f") if isinstance(value, decimal.Decimal) else value

    return [as_sqlite(value) for value in values]


# ---- errors


def code_of(error: Any) -> int:
    """Return MySQL's code of an error; 0 if the server did not answer, 1 for other errors without a code.

    For SQLite return 5 if another session holds a lock or the disk failed, and 1 for all other errors.
    """
    if type(error).__module__.startswith("sqlite3"):
        return 5 if _is_transient_in_sqlite(error) else 1
    first = error.args[0] if error.args else None
    if isinstance(first, int):
        return first
    return 0 if type(error).__name__ in ("OperationalError", "InterfaceError") else 1


def _is_transient_in_sqlite(error: Any) -> bool:
    """Return True if an error of SQLite may pass, by the lowest byte of its code.

    Python before 3.11 does not provide the code. Then the text before a colon must be a text of such an error.
    """
    number = getattr(error, "sqlite_errorcode", None)
    if number is not None:
        return number & 0xFF in _TRANSIENT_SQLITE_CODES
    return type(error).__name__ == "OperationalError" and str(error).partition(":")[0] in _TRANSIENT_SQLITE_TEXTS


def error_text(error: Any) -> str:
    """Return the text of an error without values of rows. MySQL's messages contain values, SQLite's only names."""
    if type(error).__module__.startswith("sqlite3"):
        return f"{type(error).__name__}: {error}"
    code, name = code_of(error), name_in(error)
    if code in _NAME_CODES:
        return f"error {code}, {error.args[1]}"
    return f"error {code}, {type(error).__name__}" + (f", {name}" if name else "")


def name_in(error: Any) -> str:
    """Return the column, key or constraint that a message of MySQL names; empty if it names none."""
    match = _NAMES.fullmatch(str(error.args[1])) if len(error.args) > 1 else None
    return "" if match is None else next((group for group in match.groups() if group), "")
