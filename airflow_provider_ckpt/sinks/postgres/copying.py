"""What runs on executors: copies a partition into a staging table. It is sent there by value, and needs psycopg and
pyarrow where it runs, and nothing of this package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_MISSING = (
    "psycopg is not installed where this executor runs. Install it with the Python of the executors: "
    "pip install 'airflow-provider-ckpt[postgres]', or 'psycopg[binary]' alone"
)


@contextmanager
def answered(connection: Any, patience: float) -> Iterator[None]:
    """The server answers what is asked of it in the block within so many seconds, or the connection is cut. Neither
    libpq nor psycopg can be told that: ``statement_timeout`` is the server's own, and a server that was frozen carries
    out nothing, while its kernel acknowledges all that is sent. Raises OperationalError."""
    import os
    import socket
    import threading

    import psycopg

    line, cut = socket.socket(fileno=os.dup(connection.fileno())), threading.Event()

    def give_up() -> None:
        cut.set()
        try:
            line.shutdown(socket.SHUT_RDWR)
        except OSError:  # it was answered, or lost, in this very moment
            pass

    timer = threading.Timer(patience, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.Error:
        if not cut.is_set():
            raise
        told = f"the server has not answered for {patience:g} s (statement_timeout)"
        raise psycopg.OperationalError(told) from None
    finally:
        timer.cancel()
        line.close()


def copier(conninfo: Mapping[str, Any], statements: Sequence[str], patience: float) -> Any:
    """``statements``: what a transaction begins with, then the COPY, of the frame's columns, the part
    and the row's number in it."""

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
        rows, connection, copy = 0, None, None
        options = csv.WriteOptions(include_header=False)
        try:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                if connection is None:
                    connection = psycopg.connect(**conninfo, prepare_threshold=None)
                    cursor = connection.cursor()
                    with answered(connection, patience):
                        for statement in statements[:-1]:
                            cursor.execute(statement.encode())
                        copy = cursor.copy(statements[-1].encode())
                        writer = copy.__enter__()
                columns = [_as_text(column) for column in batch.columns]
                columns.append(pyarrow.repeat(pyarrow.scalar(part, pyarrow.int64()), batch.num_rows))
                columns.append(pyarrow.array(range(rows, rows + batch.num_rows), pyarrow.int64()))
                names = [str(number) for number in range(len(columns))]
                text = io.BytesIO()
                csv.write_csv(pyarrow.RecordBatch.from_arrays(columns, names=names), text, options)
                with answered(connection, patience):
                    writer.write(text.getbuffer())
                rows += batch.num_rows
            if connection is not None and copy is not None:
                with answered(connection, patience):
                    copy.__exit__(None, None, None)
                    connection.commit()
        except psycopg.Error as error:
            return {"part": part, "rows": 0, "error": _told(error)}
        finally:
            if connection is not None:
                connection.close()  # what is not committed is undone
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
    return pyarrow.array([None if one is None else _literal(one) for one in column.to_pylist()], pyarrow.string())


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
