from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.sink import BoundSink, Handle
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import SinkGroup
from airflow_provider_ckpt.testing.released_rows import Damage, Row
from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import SqlSteps, World

pytestmark = pytest.mark.spark
KEYED = "id int NOT NULL PRIMARY KEY, city text"


@dataclass
class Table(SinkTarget):
    world: World
    given: dict[str, Any] = field(default_factory=dict)

    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundSqlSink:
        return self.world.bind(job_id, uid, **self.given)

    def shared(self) -> Table:
        return Table(self.world, {} if self.given.get("mode") == "replace" else self.given)

    def damage(self, handle: Handle, how: Damage) -> None:
        place = self.world.schema + handle["staged"]
        self.world.run(f"DROP TABLE {place}" if how == "deleted" else f"DELETE FROM {place}")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        """Return True if committed staged rows survive ``kill -9`` of the server. Its log is written before each reply.

        For SQLite, check that each session asks for writes to be synced.
        """
        sink = self.bind()
        sink.prepare()
        handle = stage(sink, frame, 1)
        if isinstance(self.world, MariaDBWorld):
            self.world.server.crash()
            self.world.server.launch()
        else:
            assert "PRAGMA synchronous = EXTRA" in sink._dialect.session_statements()
        [[count]] = self.world.run(f"SELECT count(*) FROM {self.world.schema}{handle['staged']}")
        return bool(count == handle["rows"] > 0)

    def definition(self) -> Mapping[str, Any]:
        return self.world.sink(**self.given).definition()

    def dying(self, at: int, when: When) -> BoundSqlSink:
        return self.world.bind(connect=self.world.dying(SqlSteps(at, when)), **self.given)

    def refusing(self, handle: Handle) -> BoundSqlSink:
        return self.world.bind(connect=self.world.watched(self.world.refusal_to_drop(handle["staged"])), **self.given)

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
        definition = KEYED if self.table.given.get("key") else "id int NOT NULL, city text"
        self.table.world.table(definition, "lines")

    def bind(self, **given: Any) -> list[BoundSink]:
        return [
            self.table.world.bind(uid=name, table=name, **self.table.given, **given) for name in ("lines", "orders")
        ]

    def dying(self, at: int, when: When) -> list[BoundSink]:
        return self.bind(connect=self.table.world.dying(SqlSteps(at, when)))

    def losing(self) -> list[BoundSink]:
        return self.bind(connect=self.table.world.losing())

    def damage(self, handle: Handle, how: Damage) -> None:
        self.table.damage(handle, how)

    def rows(self, spark: SparkSession) -> list[list[Row]]:
        return [[(row[0], row[1]) for row in self.table.world.rows(name)] for name in ("lines", "orders")]


class TestAppend(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table())


@pytest.mark.slow
class TestUpsert(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table(KEYED), {"mode": "upsert", "key": ["id"]})


@pytest.mark.slow
class TestReplace(SinkConformance):
    @pytest.fixture
    def target(self, world: World) -> SinkTarget:
        return Table(world.table(), {"mode": "replace"})
