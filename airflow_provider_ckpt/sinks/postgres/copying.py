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


class _Unwritable(Exception):
    """What the rows hold, and cannot be written: another attempt could not, either."""

    def __init__(self, sqlstate: str, what: str) -> None:
        super().__init__(what)
        self.told = {"sqlstate": sqlstate, "error": what, "column": None, "constraint": None}


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


class _Text:
    """Rows as CSV: PostgreSQL reads a value of any type from its text, and takes twice as long as for a binary one."""

    form, begin, end = "csv", b"", b""

    def write(self, columns: Sequence[Any]) -> Any:
        import io

        import pyarrow
        from pyarrow import csv

        text, written = io.BytesIO(), [_as_text(column) for column in columns]
        batch = pyarrow.RecordBatch.from_arrays(written, names=_numbered(columns))
        csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
        return text.getbuffer()


class _Binary:
    """Rows as PostgreSQL has them."""

    form = "binary"

    def __init__(self, columns: Sequence[Any], known: tuple[Any, bytes]) -> None:
        """``known``: rows, and how PostgreSQL itself writes them. Raises ImportError, ValueError if this release of
        pgpq writes them in another way, and whatever it raises for such columns."""
        import pgpq
        import pyarrow

        rows, expected = known
        encoder = pgpq.ArrowToPostgresBinaryEncoder(rows.schema)
        if encoder.write_header() + encoder.write_batch(rows) + encoder.finish() != expected:
            raise ValueError("pgpq")
        schema = pyarrow.schema([(name, one.type) for name, one in zip(_numbered(columns), columns, strict=True)])
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


def copier(
    conninfo: Mapping[str, Any],
    statements: Sequence[str],
    patience: float,
    *,
    arrow_types: Sequence[str] | None,
    known: tuple[Any, bytes],
    numbers_rows: bool,
) -> Any:
    """``statements``: what a transaction begins with, then the COPY, of the frame's columns, the part and, if
    ``numbers_rows``, the row's number in it. It is in binary form if the frame's columns have those ``arrow_types``
    (None: some column needs its text), and where pgpq is there and writes ``known`` as it should."""

    def copy_partition(part: int, batches: Iterable[Any]) -> dict[str, Any]:
        """``part``: the attempt of Spark's task. A task that ran twice has two: the one that Spark counts is told apart
        by it. What the database refuses is told, not raised: another attempt would be refused, too."""
        import pyarrow

        try:
            import psycopg
        except ImportError:
            raise ImportError(_MISSING) from None
        rows, written, closing = 0, None, ExitStack()
        try:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                columns = [_without_zone(column) for column in batch.columns]
                columns.append(pyarrow.repeat(pyarrow.scalar(part, pyarrow.int64()), batch.num_rows))
                if numbers_rows:
                    columns.append(pyarrow.array(range(rows, rows + batch.num_rows), pyarrow.int64()))
                if written is None:
                    written = _form(columns, arrow_types, known)
                    connection = psycopg.connect(**conninfo, prepare_threshold=None)
                    closing.callback(connection.close)  # what is not committed is undone
                    server = closing.enter_context(Patience(connection, patience))
                    cursor = connection.cursor()
                    with server.answered():
                        for statement in statements[:-1]:
                            cursor.execute(statement.encode())
                        copy = cursor.copy(f"{statements[-1]} (FORMAT {written.form})".encode())
                        writer = copy.__enter__()
                        writer.write(written.begin)
                text = written.write(columns)
                with server.answered():
                    writer.write(text)
                rows += batch.num_rows
            if written is not None:
                with server.answered():
                    writer.write(written.end)
                    copy.__exit__(None, None, None)
                    connection.commit()
        except psycopg.Error as error:
            return {"part": part, "rows": 0, "error": _told(error)}
        except _Unwritable as unwritable:
            return {"part": part, "rows": 0, "error": unwritable.told}
        finally:
            closing.close()
        return {"part": part, "rows": rows, **({} if written is None else {"form": written.form})}

    return copy_partition


def _form(columns: Sequence[Any], arrow_types: Sequence[str] | None, known: tuple[Any, bytes]) -> Any:
    # of another type the bytes of a value would be taken for those of another value
    found = [str(one.type).removeprefix("large_") for one in columns]
    if arrow_types is not None and all(map(str.startswith, found, arrow_types)):
        try:
            return _Binary(columns, known)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # it is missing, or another release: of its panics Rust makes what is no Exception
            pass
    return _Text()


def _numbered(columns: Sequence[Any]) -> list[str]:
    return [str(number) for number in range(len(columns))]


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


def _without_zone(column: Any) -> Any:
    """An instant, as the session's zone is UTC, and to write that takes as long as all the rest."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.view(pyarrow.int64()).view(pyarrow.timestamp(column.type.unit))
    return column


def _as_text(column: Any) -> Any:
    """An array and bytes as PostgreSQL writes them; everything else as it is."""
    import pyarrow

    if pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type):
        return pyarrow.array(
            [None if one is None else "\\x" + one.hex() for one in column.to_pylist()], pyarrow.string()
        )
    if not pyarrow.types.is_list(column.type) and not pyarrow.types.is_large_list(column.type):
        return column
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        raise _Unwritable("22021", "an array holds a text that is not UTF-8") from None
    except (OverflowError, ValueError):
        raise _Unwritable("22008", "an array holds a date after the year 9999, or before 1") from None
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
