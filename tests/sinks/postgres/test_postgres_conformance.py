from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import SinkGroup
from airflow_provider_ckpt.testing.released_rows import Damage, Row
from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.sinks.postgres.world import PostgresSteps, World

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@dataclass
class Table(SinkTarget):
    world: World
    given: dict[str, Any] = field(default_factory=dict)

    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundPostgresSink:
        return self.world.bind(job_id, uid, **self.given)

    def shared(self) -> Table:
        return Table(self.world, {} if self.given.get("mode") == "replace" else self.given)

    def damage(self, handle: Handle, how: Damage) -> None:
        place = f'"{self.world.staging}".{handle["staged"]}'
        self.world.run(f"DROP TABLE {place}" if how == "deleted" else f"TRUNCATE {place}")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        """Return True if committed staged rows survive ``kill -9`` of the server.

        Its log is written before each reply.
        """
        sink = self.bind()
        sink.prepare()
        handle = stage(sink, frame, 1)
        self.world.server.crash()
        self.world.server.launch()
        [[count]] = self.world.run(f'SELECT count(*) FROM "{self.world.staging}".{handle["staged"]}')
        return bool(count == handle["rows"] > 0)

    def definition(self) -> Mapping[str, Any]:
        return self.world.sink(**self.given).definition()

    def dying(self, at: int, when: When) -> BoundPostgresSink:
        return self.world.bind(connect=PostgresSteps(at, when).connect, **self.given)

    def refusing(self, handle: Handle) -> BoundPostgresSink:
        """Return a sink that cannot drop the staging table, because another object depends on the table."""
        staging = f'"{self.world.staging}".{handle["staged"]}'
        self.world.run(f"CREATE VIEW {staging}_view AS SELECT * FROM {staging}")
        return self.bind()

    def rows(self, spark: SparkSession) -> list[Row]:
        return sorted((row[0], row[1]) for row in self.world.rows())

    def staged(self) -> list[str]:
        return self.world.staged()

    def group(self) -> SinkGroup:
        return Tables(self)


@dataclass
class Tables(SinkGroup):
    """Two tables of one transaction. ``table`` exists; a second table like it is created."""

    table: Table

    def __post_init__(self) -> None:
        schema = self.table.world.schema
        self.table.world.run(f'CREATE TABLE "{schema}".lines (LIKE "{schema}".orders INCLUDING ALL)')

    def bind(self, **given: Any) -> list[BoundSink]:
        world = self.table.world
        return [
            world.bind(uid=name, table=f'"{world.schema}".{name}', **self.table.given, **given)
            for name in ("lines", "orders")
        ]

    def dying(self, at: int, when: When) -> list[BoundSink]:
        return self.bind(connect=PostgresSteps(at, when).connect)

    def losing(self) -> list[BoundSink]:
        class Losing(psycopg.Connection[Any]):
            def commit(self) -> None:
                super().commit()
                raise psycopg.OperationalError("the connection was lost")

        return self.bind(connect=Losing.connect)

    def damage(self, handle: Handle, how: Damage) -> None:
        self.table.damage(handle, how)

    def rows(self, spark: SparkSession) -> list[list[Row]]:
        return [[(row[0], row[1]) for row in self.table.world.rows(name)] for name in ("lines", "orders")]


class TestAppend(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table())


class TestUpsert(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table("id int PRIMARY KEY, city text"), {"mode": "upsert", "key": ["id"]})


class TestReplace(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table(), {"mode": "replace"})
