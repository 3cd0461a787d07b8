"""What runs on executors: copies a partition into a staging table. It is sent there by value, and needs psycopg and
pyarrow where it runs, and nothing of this package."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

_MISSING = (
    "psycopg is not installed where this executor runs. Install it with the Python of the executors: "
    "pip install 'airflow-provider-ckpt[postgres]', or 'psycopg[binary]' alone"
)


class _BeyondPython(Exception):
    """What an array holds, and Python has none of: another attempt would not have it, either."""

    def __init__(self, sqlstate: str, what: str) -> None:
        super().__init__(what)
        self.told = {"sqlstate": sqlstate, "error": f"an array holds {what}", "column": None, "constraint": None}


class Patience:
    """A server that does not answer within so many seconds is given up: its connection is cut. Neither libpq nor
    psycopg can be told that: ``statement_timeout`` is the server's own, and a server that was frozen carries out
    nothing, while its kernel acknowledges all that is sent.

    A context, of one connection, with one thread that sleeps until the deadline that it has seen last: a statement
    costs no more than to note its own."""

    def __init__(self, connection: Any, seconds: float) -> None:
        import os
        import socket
        import threading

        self._seconds, self._deadline = seconds, math.inf
        self._line = socket.socket(fileno=os.dup(connection.fileno()))
        self._is_cut, self._is_over = False, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ckpt-patience", daemon=True)

    def __enter__(self) -> Patience:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._line.close()

    @contextmanager
    def answered(self) -> Iterator[None]:
        """For what is asked of the server in the block. Raises OperationalError."""
        import psycopg

        self._deadline = time.monotonic() + self._seconds
        try:
            yield
        except psycopg.Error:
            if not self._is_cut:
                raise
            told = f"the server has not answered for {self._seconds:g} s (statement_timeout)"
            raise psycopg.OperationalError(told) from None
        finally:
            self._deadline = math.inf

    def _watch(self) -> None:
        import socket

        pause = self._seconds  # nothing that is asked from now on is due before
        while not self._is_over.wait(pause):
            pause = min(self._deadline - time.monotonic(), self._seconds)
            if pause <= 0:
                self._is_cut = True
                with suppress(OSError):  # it was answered, or lost, in this very moment
                    self._line.shutdown(socket.SHUT_RDWR)
                return


def copier(conninfo: Mapping[str, Any], statements: Sequence[str], patience: float, *, numbers_rows: bool) -> Any:
    """``statements``: what a transaction begins with, then the COPY, of the frame's columns, the part and, if
    ``numbers_rows``, the row's number in it."""

    def copy_partition(part: int, batches: Iterable[Any]) -> dict[str, Any]:
        """``part``: the attempt of Spark's task. A task that ran twice has two: the one that Spark counts is told apart
        by it. What the database refuses is told, not raised: another attempt would be refused, too."""
        import io

        import pyarrow
        from pyarrow import csv

        try:
            import psycopg
        except ImportError:
            raise ImportError(_MISSING) from None
        rows, connection, copy, closing = 0, None, None, ExitStack()
        options = csv.WriteOptions(include_header=False)
        try:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                if connection is None:
                    connection = psycopg.connect(**conninfo, prepare_threshold=None)
                    closing.callback(connection.close)  # what is not committed is undone
                    server = closing.enter_context(Patience(connection, patience))
                    cursor = connection.cursor()
                    with server.answered():
                        for statement in statements[:-1]:
                            cursor.execute(statement.encode())
                        copy = cursor.copy(statements[-1].encode())
                        writer = copy.__enter__()
                columns = [_as_text(column) for column in batch.columns]
                columns.append(pyarrow.repeat(pyarrow.scalar(part, pyarrow.int64()), batch.num_rows))
                if numbers_rows:
                    columns.append(pyarrow.array(range(rows, rows + batch.num_rows), pyarrow.int64()))
                names = [str(number) for number in range(len(columns))]
                text = io.BytesIO()
                csv.write_csv(pyarrow.RecordBatch.from_arrays(columns, names=names), text, options)
                with server.answered():
                    writer.write(text.getbuffer())
                rows += batch.num_rows
            if connection is not None and copy is not None:
                with server.answered():
                    copy.__exit__(None, None, None)
                    connection.commit()
        except psycopg.Error as error:
            return {"part": part, "rows": 0, "error": _told(error)}
        except _BeyondPython as beyond:
            return {"part": part, "rows": 0, "error": beyond.told}
        finally:
            closing.close()
        return {"part": part, "rows": rows}

    return copy_partition


def _told(error: Any) -> dict[str, Any]:
    """Without the values that PostgreSQL's messages and details hold. The context names the column last."""
    import re

    column = error.diag.column_name
    if column is None:
        found = re.search(r"COPY [^,]+, line \d+, column ([^:]+)", error.diag.context or "")
        column = found[1] if found else None
    return {
        "sqlstate": error.sqlstate,
        "error": type(error).__name__,
        "column": column,
        "constraint": error.diag.constraint_name,
    }


def _as_text(column: Any) -> Any:
    """An array as PostgreSQL writes one, an instant without its zone (the session's is UTC, and writing it takes as
    long as all the rest); everything else as it is."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.view(pyarrow.int64()).view(pyarrow.timestamp(column.type.unit))
    if not pyarrow.types.is_list(column.type) and not pyarrow.types.is_large_list(column.type):
        return column
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        raise _BeyondPython("22021", "a text that is not UTF-8") from None
    except (OverflowError, ValueError):
        raise _BeyondPython("22008", "a date after the year 9999, or before 1") from None
    return pyarrow.array([None if one is None else _literal(one) for one in values], pyarrow.string())


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(_literal, value)) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        value = "\\x" + value.hex()
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
