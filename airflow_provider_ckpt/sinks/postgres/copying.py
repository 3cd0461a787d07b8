"""The code that copies a Spark partition into a staging table on an executor.

Spark sends this code to the executor by value. The executor needs psycopg and pyarrow, but not this package.
"""

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


def copier(
    conninfo: Mapping[str, Any],
    statements: Sequence[str],
    timeout: float,
    *,
    arrow_types: Sequence[str] | None,
    sample: tuple[Any, bytes],
    numbers_rows: bool,
) -> Any:
    """Return a function that copies a Spark partition into a staging table, on an executor.

    The function uses the binary form if the frame has the ``arrow_types`` and the installed pgpq writes ``sample``
    correctly.

    Args:
        statements: statements of one transaction. The last one is the COPY of the frame's columns and the columns that
            :func:`.staging.own_columns` adds.
        timeout: maximum time that the server may take for an answer, in seconds.
        arrow_types: prefix of each column's Arrow type; None if a column must be written as text.
        sample: rows, and PostgreSQL's own bytes for them.
        numbers_rows: True if the number of each row in the partition is copied, too.
    """

    def copy_partition(task_attempt: int, batches: Iterable[Any]) -> dict[str, Any]:
        """Copy the rows of a partition, in one transaction. ``task_attempt``: number of the attempt of Spark's task.

        Refusals of the database are returned, not raised, because Spark would repeat the task in vain.
        """
        import pyarrow

        try:
            import psycopg
        except ImportError:
            raise ImportError(_MISSING) from None
        rows, encoder, stack = 0, None, ExitStack()
        try:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                columns = [_without_zone(column) for column in batch.columns]
                columns.append(pyarrow.repeat(pyarrow.scalar(task_attempt, pyarrow.int64()), batch.num_rows))
                if numbers_rows:
                    columns.append(pyarrow.array(range(rows, rows + batch.num_rows), pyarrow.int64()))
                if encoder is None:
                    encoder = _encoder_for(columns, arrow_types, sample)
                    connection = psycopg.connect(**conninfo, prepare_threshold=None)
                    stack.callback(connection.close)  # uncommitted rows are rolled back
                    watchdog = stack.enter_context(StatementWatchdog(connection, timeout))
                    cursor = connection.cursor()
                    with watchdog.limit_time():
                        for statement in statements[:-1]:
                            cursor.execute(statement.encode())
                        copy = cursor.copy(f"{statements[-1]} (FORMAT {encoder.form})".encode())
                        writer = copy.__enter__()
                        writer.write(encoder.begin)
                data = encoder.write(columns)
                with watchdog.limit_time():
                    writer.write(data)
                rows += batch.num_rows
            if encoder is not None:
                with watchdog.limit_time():
                    writer.write(encoder.end)
                    copy.__exit__(None, None, None)
                    connection.commit()
        except psycopg.Error as error:
            return {"task_attempt": task_attempt, "rows": 0, "error": _error_report(error)}
        except _Unwritable as unwritable:
            return {"task_attempt": task_attempt, "rows": 0, "error": unwritable.report}
        finally:
            stack.close()
        return {"task_attempt": task_attempt, "rows": rows, **({} if encoder is None else {"form": encoder.form})}

    return copy_partition


class StatementWatchdog:
    """A watchdog that cuts the connection of a server that does not answer within ``seconds``.

    Neither libpq nor psycopg has such a limit. A frozen server does not enforce ``statement_timeout``, while its kernel
    acknowledges all data. Use the watchdog as the context manager of one connection. Its thread sleeps until the last
    deadline that it read, so a statement only stores its own deadline.
    """

    def __init__(self, connection: Any, seconds: float) -> None:
        import os
        import socket
        import threading

        self._seconds, self._deadline = seconds, math.inf
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._is_cut, self._is_over = False, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ckpt-statement-watchdog", daemon=True)

    def __enter__(self) -> StatementWatchdog:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close()

    @contextmanager
    def limit_time(self) -> Iterator[None]:
        """Cut the connection if the block's request to the server takes longer than the limit.

        Raises psycopg.OperationalError in that case.
        """
        import psycopg

        self._deadline = time.monotonic() + self._seconds
        try:
            yield
        except psycopg.Error:
            if not self._is_cut:
                raise
            message = f"the server has not answered for {self._seconds:g} s (statement_timeout)"
            raise psycopg.OperationalError(message) from None
        finally:
            self._deadline = math.inf

    def _watch(self) -> None:
        import socket

        pause = self._seconds  # requests that begin now have no earlier deadline
        while not self._is_over.wait(pause):
            pause = min(self._deadline - time.monotonic(), self._seconds)
            if pause <= 0:
                self._is_cut = True
                with suppress(OSError):  # the server answered or was lost at this moment
                    self._socket.shutdown(socket.SHUT_RDWR)
                return


class _Unwritable(Exception):
    """A value in the rows cannot be written. Another try would fail, too."""

    def __init__(self, sqlstate: str, problem: str) -> None:
        super().__init__(problem)
        self.report = {"sqlstate": sqlstate, "error": problem, "column": None, "constraint": None}


class _TextEncoder:
    """An encoder to CSV. PostgreSQL can read every type from text, but takes twice as long as for the binary form."""

    form, begin, end = "csv", b"", b""

    def write(self, columns: Sequence[Any]) -> Any:
        import io

        import pyarrow
        from pyarrow import csv

        buffer, texts = io.BytesIO(), [_as_text(column) for column in columns]
        batch = pyarrow.RecordBatch.from_arrays(texts, names=_numbered(columns))
        csv.write_csv(batch, buffer, csv.WriteOptions(include_header=False))
        return buffer.getbuffer()


class _BinaryEncoder:
    form = "binary"

    def __init__(self, columns: Sequence[Any], sample: tuple[Any, bytes]) -> None:
        """Prepare the encoder for these columns. ``sample``: rows, and PostgreSQL's own bytes for them.

        Raises ImportError without pgpq, and ValueError if the installed pgpq writes other bytes for the sample. pgpq
        may raise other errors for the columns.
        """
        import pgpq
        import pyarrow

        rows, expected = sample
        encoder = pgpq.ArrowToPostgresBinaryEncoder(rows.schema)
        if encoder.write_header() + encoder.write_batch(rows) + encoder.finish() != expected:
            raise ValueError("pgpq")
        schema = pyarrow.schema([(name, column.type) for name, column in zip(_numbered(columns), columns, strict=True)])
        self._encoder = pgpq.ArrowToPostgresBinaryEncoder(schema)
        self.begin = self._encoder.write_header()

    def write(self, columns: Sequence[Any]) -> Any:
        import pyarrow

        try:
            return self._encoder.write_batch(pyarrow.RecordBatch.from_arrays(columns, names=_numbered(columns)))
        except ValueError as error:
            if "converting" in str(error):
                raise _Unwritable("22008", "a date or a timestamp that PostgreSQL cannot hold") from None
            raise _Unwritable("54000", "a value that is too long to be written") from None

    @property
    def end(self) -> Any:
        return self._encoder.finish()


def _encoder_for(columns: Sequence[Any], arrow_types: Sequence[str] | None, sample: tuple[Any, bytes]) -> Any:
    # With another type, the bytes of a value would be read as another value.
    type_names = [str(column.type).removeprefix("large_") for column in columns]
    if arrow_types is not None and all(map(str.startswith, type_names, arrow_types)):
        try:
            return _BinaryEncoder(columns, sample)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # pgpq is missing or has another release; Rust's panics are BaseExceptions
            pass
    return _TextEncoder()


def _numbered(columns: Sequence[Any]) -> list[str]:
    return [str(number) for number in range(len(columns))]


def _error_report(error: Any) -> dict[str, Any]:
    """Return an error's codes and the column that its context names. Other parts of an error contain values."""
    import re

    column = error.diag.column_name
    if column is None:
        match = re.search(r"COPY [^,]+, line \d+, column ([^:]+)", error.diag.context or "")
        column = match[1] if match else None
    return {
        "sqlstate": error.sqlstate,
        "error": type(error).__name__,
        "column": column,
        "constraint": error.diag.constraint_name,
    }


def _without_zone(column: Any) -> Any:
    """Return instants without their zone, because a zone doubles the time of a write. The session's zone is UTC."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.view(pyarrow.int64()).view(pyarrow.timestamp(column.type.unit))
    return column


def _as_text(column: Any) -> Any:
    """Return arrays and bytes in PostgreSQL's spelling, and other columns unchanged."""
    import pyarrow

    if pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type):
        return pyarrow.array(
            [None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pyarrow.string()
        )
    if not pyarrow.types.is_list(column.type) and not pyarrow.types.is_large_list(column.type):
        return column
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        raise _Unwritable("22021", "an array holds a text that is not UTF-8") from None
    except (OverflowError, ValueError):
        raise _Unwritable("22008", "an array holds a date after the year 9999, or before 1") from None
    return pyarrow.array([None if value is None else _literal(value) for value in values], pyarrow.string())


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
