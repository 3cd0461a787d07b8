"""Tables released in one transaction. They show all of a checkpoint, or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError, ReleaseRefusedError
from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.sinks.sink import ReleaseParticipant
from airflow_provider_ckpt.testing.crash import SimulatedCrash, When
from tests.sinks.databases import rows_of
from tests.sinks.postgres.world import PostgresSteps, World, staged

pytestmark = pytest.mark.slow

WHEN: tuple[When, ...] = ("before", "after")
NAMES = ("lines", "orders")


@pytest.fixture
def two_tables(world: World) -> World:
    for name in NAMES:
        world.table("id int PRIMARY KEY, city text", name)
    return world


def bind(world: World, new: bool = False, **given: Any) -> list[BoundPostgresSink]:
    make = world.new if new else world.bind
    return [make(uid=name, table=f'"{world.schema}".{name}', **given) for name in NAMES]


def release(sinks: list[BoundPostgresSink], number: int, *handles: Any) -> list[dict[str, int]]:
    participants = [
        ReleaseParticipant(sink, list(sink_handles)) for sink, sink_handles in zip(sinks, handles, strict=True)
    ]
    return sinks[0].release_together(participants, number)


def shown(world: World) -> list[Any]:
    """Return the ids of both tables, as one query sees them."""
    query = " UNION ALL ".join(f"SELECT '{name}', id FROM \"{world.schema}\".{name}" for name in NAMES)
    rows = world.run(query)
    return [sorted(number for table, number in rows if table == name) for name in NAMES]


def ids(*numbers: int) -> list[int]:
    return [row for row, _ in rows_of(*numbers)]


def test_r9_a_crashed_release_of_two_tables_is_in_both_or_neither(two_tables: World) -> None:
    sinks, count, number = bind(two_tables, new=True), 99, 0
    for when in WHEN:
        at = 1
        while at <= count:
            number += 1
            handles = [[staged(sink, number)] for sink in sinks]
            steps = PostgresSteps(at, when)
            with pytest.raises(SimulatedCrash):
                release(bind(two_tables, connect=steps.connect), number, *handles)
            lines, orders = shown(two_tables)
            assert lines == orders == ids(*range(1, number + (steps.done[-1:] == ["COMMIT"])))
            assert release(bind(two_tables), number, *handles) == [{"rows": 2}, {"rows": 2}]
            assert shown(two_tables) == [ids(*range(1, number + 1))] * 2
            assert [sink.last_released() for sink in sinks] == [number, number]
            if count == 99:
                number += 1
                watched = PostgresSteps()
                handles = [[staged(sink, number)] for sink in sinks]
                release(bind(two_tables, connect=watched.connect), number, *handles)
                count = len(watched.done)
                assert watched.done.count("COMMIT") == 1
            at += 1
    assert two_tables.staged() == []


def test_a_row_that_one_table_refuses_prevents_the_release_of_both(two_tables: World) -> None:
    sinks = bind(two_tables, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    two_tables.run(f'INSERT INTO "{two_tables.schema}".orders VALUES (10, %s)', "of somebody else")
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as caught:
        release(sinks, 1, *handles)
    assert caught.value.data["sink"] == "orders"
    assert shown(two_tables) == [[], [10]]
    two_tables.run(f'DELETE FROM "{two_tables.schema}".orders')
    assert release(sinks, 1, *handles) == [{"rows": 2}, {"rows": 2}]
    assert shown(two_tables) == [ids(1), ids(1)]


def test_a_group_release_includes_rows_that_one_table_lacks(two_tables: World) -> None:
    """The sinks have just begun to share a transaction. The first sink had released alone before."""
    sinks = bind(two_tables, new=True)
    first = [[staged(sink, 1)] for sink in sinks]
    assert sinks[0].release(first[0], 1) == {"rows": 2}
    second = [[*first[0], staged(sinks[0], 2)], [*first[1], staged(sinks[1], 2)]]
    assert release(sinks, 2, *second) == [{"rows": 2}, {"rows": 4}]
    assert shown(two_tables) == [ids(1, 2), ids(1, 2)]


def test_a_table_without_rows_to_release_does_not_delay_the_other(two_tables: World) -> None:
    sinks = bind(two_tables, new=True)
    assert release(sinks, 1, [staged(sinks[0], 1)], []) == [{"rows": 2}, {"rows": 0}]
    assert release(sinks, 2, [], [staged(sinks[1], 2)]) == [{"rows": 0}, {"rows": 2}]
    assert shown(two_tables) == [ids(1), ids(2)]


def test_a_lost_ledger_entry_of_one_sink_prevents_the_release_of_both(two_tables: World) -> None:
    sinks = bind(two_tables, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    two_tables.run(f"DELETE FROM \"{two_tables.staging}\".ledger WHERE sink = 'orders'")
    with pytest.raises(ReleaseRecordLostError, match="Bring the ledger back and resume with"):
        release(sinks, 1, *handles)
    assert shown(two_tables) == [[], []]


def test_a_referenced_table_is_released_first(world: World) -> None:
    world.table("id int PRIMARY KEY, city text", "orders")
    world.table(f'id int REFERENCES "{world.schema}".orders, city text', "lines")
    lines, orders = bind(world, new=True)
    handles = [[staged(orders, 1)], [staged(lines, 1)]]
    assert release([orders, lines], 1, *handles) == [{"rows": 2}, {"rows": 2}]
    assert shown(world) == [ids(1), ids(1)]


def test_tables_with_a_foreign_key_are_replaced_together(world: World) -> None:
    world.table("id int PRIMARY KEY, city text", "orders")
    world.table(f'id int REFERENCES "{world.schema}".orders, city text', "lines")
    for number, job in enumerate(("monday", "tuesday"), 1):
        lines, orders = bind(world, new=True, job=job, mode="replace")
        handles = [[staged(orders, number)], [staged(lines, number)]]
        assert release([orders, lines], 1, *handles) == [{"rows": 2}, {"rows": 2}]
        assert shown(world) == [ids(number), ids(number)]


@pytest.fixture
def reader(two_tables: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(two_tables.url, autocommit=True) as connection:
        yield connection


def test_a_reader_sees_both_tables_at_one_checkpoint(two_tables: World, reader: psycopg.Connection[Any]) -> None:
    """The reader reads both tables before each statement of the release."""
    seen = []

    class Watched(psycopg.Connection[Any]):
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            seen.append(row_counts())
            return super().execute(query, *args, **more)

        def commit(self) -> None:
            seen.append(row_counts())
            super().commit()

    def row_counts() -> tuple[int, int]:
        schema = two_tables.schema
        count = f'SELECT (SELECT count(*) FROM "{schema}".lines), (SELECT count(*) FROM "{schema}".orders)'
        [counts] = reader.execute(count.encode())
        return int(counts[0]), int(counts[1])

    sinks = bind(two_tables, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    release(bind(two_tables, connect=Watched.connect), 1, *handles)
    seen.append(row_counts())
    assert set(seen) == {(0, 0), (2, 2)}
