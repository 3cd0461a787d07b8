"""Database that jobs release to, without Spark: frames read in this process, and connections that die."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow

from airflow_provider_ckpt.sinks.postgres.address import Address
from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.sinks.postgres.database import Connect, Database
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, SinkInput
from tests.sinks.databases import COLUMNS, Row, Steps, rows_of, stage
from tests.support.postgres import PostgreSQL

PASSWORD = "s3cr3tPW"
_ARROW = {"integer": pyarrow.int32(), "string": pyarrow.string()}


class PostgresSteps(Steps):
    def connect(self, **parameters: Any) -> psycopg.Connection[Any]:
        steps = self

        class Dying(psycopg.Connection[Any]):
            def execute(self, query: Any, *args: Any, **more: Any) -> Any:
                text = query if isinstance(query, str) else query.as_string(self)
                return steps.step(text, lambda: psycopg.Connection.execute(self, query, *args, **more))

            def commit(self) -> None:
                steps.step("COMMIT", lambda: psycopg.Connection.commit(self))

        return Dying.connect(**parameters)


class Rows:
    """Frame with only the parts that a sink uses: its schema, and rows in partitions."""

    def __init__(self, partitions: Sequence[Sequence[Row]], columns: Sequence[tuple[str, Any]] = COLUMNS) -> None:
        self.partitions, self.columns = partitions, columns

    @property
    def schema(self) -> Rows:
        return self

    def json(self) -> str:
        return json.dumps({"fields": [{"name": name, "type": kind} for name, kind in self.columns]})

    def selectExpr(self, *written: str) -> Rows:
        return self

    def batches(self, rows: Sequence[Row]) -> Iterator[pyarrow.RecordBatch]:
        names = [name for name, _ in self.columns]
        if rows:
            kinds = [_ARROW.get(str(kind)) for _, kind in self.columns]  # the types that Spark's cast gives
            columns = [
                pyarrow.array(list(values), kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, names=names)


@dataclass
class World:
    """Database for sinks of jobs.

    ``schema``: schema of the tables; ``staging``: schema of the ledger. ``settings``: settings of libpq, as part of a
    URL.
    """

    server: PostgreSQL
    schema: str
    staging: str
    settings: str = ""
    made: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"postgresql://airflow:{PASSWORD}@127.0.0.1:{self.server.port}/postgres{self.settings}"

    def sink(self, **given: Any) -> PostgresSink:
        table = given.pop("table", f'"{self.schema}".orders')
        return PostgresSink(table, url=self.url, **{"staging_schema": self.staging, **given})

    def bind(
        self, job: str = "orders", uid: str = "lake", connect: Connect = psycopg.connect, **given: Any
    ) -> BoundPostgresSink:
        """Bind the sink again, as another process of the job would."""
        sink, context = self.sink(**given), SinkContext(job, uid)
        sink.validate()
        address = Address.of_url(self.url)
        assert address is not None
        return BoundPostgresSink(sink.settings, context, Database(address, connect))

    def new(self, job: str = "orders", uid: str = "lake", **given: Any) -> BoundPostgresSink:
        """Bind and prepare the sink, as a job does that starts for the first time."""
        bound = self.bind(job, uid, **given)
        bound.check_rows(SinkInput(uid, COLUMNS))
        bound.prepare()
        return bound

    def table(self, definition: str = "id int NOT NULL, city text", name: str = "orders") -> World:
        self.run(f'CREATE TABLE "{self.schema}".{name} ({definition})')
        return self

    def named(self, table: str) -> str:
        """Return the name of a table as a sink gets it."""
        return f'"{self.schema}".{table}'

    def run(self, statement: str, *values: Any) -> list[Row]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def rows(self, name: str = "orders") -> list[Row]:
        return sorted(self.run(f'SELECT * FROM "{self.schema}".{name}'))

    def staged(self) -> list[str]:
        """Return the ids of all batches whose staging table exists."""
        query = f"""SELECT handle FROM "{self.staging}".staged JOIN pg_class ON relname = staging ORDER BY handle"""
        return [row[0] for row in self.run(query)]

    def released(self) -> list[int]:
        """Return the checkpoint of each batch that the ledger lists as released."""
        return [row[0] for row in self.run(f'SELECT checkpoint FROM "{self.staging}".released')]

    def staging_tables(self) -> int:
        [[count]] = self.run(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = %s AND relname LIKE 's\\_%%' AND relkind = 'r'",
            self.staging,
        )
        return int(count)


def frame_of(number: int) -> Rows:
    """Return the rows 10 n and 10 n + 1, in two partitions."""
    return Rows([[row] for row in rows_of(number)])


def staged(sink: BoundPostgresSink, number: int, attempt: str = "a1") -> Handle:
    return stage(sink, frame_of(number), number, attempt)
