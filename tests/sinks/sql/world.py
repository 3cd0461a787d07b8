"""Database that jobs release to, without Spark: frames read in this process, and connections that die."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow

from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, SinkInput
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink, open_database
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from tests.sinks.databases import COLUMNS, Row, Steps, rows_of, stage

Connect = Callable[..., Any]
Watch = Callable[[str, Any], None]
"""Function called with each statement and its connection, before the statement runs."""


class SqlSteps(Steps):
    """Steps that do not count statements that set up the session."""

    READS = ("SELECT", "SET", "SHOW", "PRAGMA", "BEGIN")


class Rows:
    """Frame with only the parts that a sink uses: its schema, the master of its session, and rows in partitions."""

    def __init__(
        self,
        partitions: Sequence[Sequence[Row]],
        columns: Sequence[tuple[str, Any]] = COLUMNS,
        master: str = "local[2]",
        types: Sequence[Any] | None = None,
    ) -> None:
        self.partitions, self.columns, self.master, self.types = partitions, columns, master, types

    @property
    def schema(self) -> Rows:
        return self

    @property
    def sparkSession(self) -> Rows:
        return self

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.master": self.master}

    def json(self) -> str:
        return json.dumps({"fields": [{"name": name, "type": kind} for name, kind in self.columns]})

    def selectExpr(self, *written: str) -> Rows:
        return self

    def batches(self, rows: Sequence[Row]) -> Iterator[pyarrow.RecordBatch]:
        names = [name for name, _ in self.columns]
        if rows:
            types = self.types or [pyarrow.string() if kind == "string" else None for _, kind in self.columns]
            columns = [
                pyarrow.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, names=names)


class World(ABC):
    """Database for sinks of jobs. ``schema``: prefix of table names in statements, with its dot; may be empty."""

    schema: str
    kind: str

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def open(self) -> Any:
        """Return a connection that commits each statement."""

    @abstractmethod
    def dying(self, steps: SqlSteps) -> Connect: ...

    @abstractmethod
    def losing(self) -> Connect:
        """Return a connect function whose connections lose the reply to a commit."""

    @abstractmethod
    def watched(self, watch: Watch) -> Connect: ...

    @abstractmethod
    def refusal(self) -> Exception:
        """Return the driver's error for a statement that the user may not run."""

    def refusal_to_drop(self, table: str) -> Watch:
        def watch(statement: str, connection: Any) -> None:
            if "DROP TABLE" in statement and table in statement:
                raise self.refusal()

        return watch

    @abstractmethod
    def tables(self) -> list[str]:
        """Return the names of all tables."""

    def sink(self, **given: Any) -> SqlSink:
        return SqlSink(given.pop("table", "orders"), **{"url": self.url, **given})

    def bind(
        self, job: str = "orders", uid: str = "lake", connect: Connect | None = None, **given: Any
    ) -> BoundSqlSink:
        """Bind the sink again, as another process of the job would."""
        sink, context = self.sink(**given), SinkContext(job, uid)
        sink.validate()
        address = Address.of_url(sink.url or "")
        assert address is not None
        return BoundSqlSink(sink.settings, context, open_database(address, connect))

    def new(self, job: str = "orders", uid: str = "lake", **given: Any) -> BoundSqlSink:
        """Bind and prepare the sink, as a job does that starts for the first time."""
        bound = self.bind(job, uid, **given)
        bound.check_rows(SinkInput(uid, COLUMNS))
        bound.prepare()
        return bound

    def table(self, definition: str = "id int NOT NULL, city text", name: str = "orders") -> World:
        self.run(f"CREATE TABLE {self.schema}{name} ({definition})")
        return self

    def named(self, table: str) -> str:
        """Return the name of a table as a sink gets it."""
        return table

    def run(self, statement: str, *values: Any) -> list[Row]:
        with closing(self.open()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, values) if values else cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def put(self, *rows: Row) -> None:
        """Insert rows as a client that is no job."""
        for row in rows:
            texts = ", ".join("NULL" if value is None else repr(value) for value in row)
            self.run(f"INSERT INTO {self.schema}orders VALUES ({texts})")

    def rows(self, name: str = "orders") -> list[Row]:
        return sorted(self.run(f"SELECT * FROM {self.schema}{name}"))

    def staged(self) -> list[str]:
        """Return the ids of all batches whose staging table exists."""
        if "ckpt_staged" not in self.tables():
            return []
        there = set(self.tables())
        batches = self.run(f"SELECT handle, staging FROM {self.schema}ckpt_staged ORDER BY handle")
        return [handle for handle, staging in batches if staging in there]

    def released(self) -> list[int]:
        """Return the checkpoint of each batch that the ledger lists as released."""
        return [row[0] for row in self.run(f"SELECT checkpoint FROM {self.schema}ckpt_released")]

    def staging_tables(self) -> int:
        return len([name for name in self.tables() if name.startswith("ckpt_s_")])

    def forget(self) -> None:
        """Drop the whole ledger."""
        for name in self.tables():
            if name.startswith("ckpt_"):
                self.run(f"DROP TABLE {self.schema}{name}")


def frame_of(number: int) -> Rows:
    """Return the rows 10 n and 10 n + 1, in two partitions."""
    return Rows([[row] for row in rows_of(number)])


def staged(sink: BoundSqlSink, number: int, attempt: str = "a1") -> Handle:
    return stage(sink, frame_of(number), number, attempt)
