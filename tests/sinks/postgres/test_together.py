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
def two(world: World) -> World:
    for name in NAMES:
        world.table("id int PRIMARY KEY, city text", name)
    return world


def bind(world: World, new: bool = False, **given: Any) -> list[BoundPostgresSink]:
    make = world.new if new else world.bind
    return [make(uid=name, table=f'"{world.schema}".{name}', **given) for name in NAMES]


def release(sinks: list[BoundPostgresSink], number: int, *handles: Any) -> list[dict[str, int]]:
    participants = [ReleaseParticipant(sink, list(one)) for sink, one in zip(sinks, handles, strict=True)]
    return sinks[0].release_together(participants, number)


def shown(world: World) -> list[Any]:
    """Return the ids of both tables, as one query sees them."""
    asked = " UNION ALL ".join(f"SELECT '{name}', id FROM \"{world.schema}\".{name}" for name in NAMES)
    found = world.run(asked)
    return [sorted(number for one, number in found if one == name) for name in NAMES]


def ids(*numbers: int) -> list[int]:
    return [row for row, _ in rows_of(*numbers)]


def test_r9_a_release_of_two_tables_that_dies_anywhere_has_happened_in_both_or_in_none(two: World) -> None:
    sinks, count, number = bind(two, new=True), 99, 0
    for when in WHEN:
        at = 1
        while at <= count:
            number += 1
            handles = [[staged(sink, number)] for sink in sinks]
            steps = PostgresSteps(at, when)
            with pytest.raises(SimulatedCrash):
                release(bind(two, connect=steps.connect), number, *handles)
            one, other = shown(two)
            assert one == other == ids(*range(1, number + (steps.done[-1:] == ["COMMIT"])))
            assert release(bind(two), number, *handles) == [{"rows": 2}, {"rows": 2}]
            assert shown(two) == [ids(*range(1, number + 1))] * 2
            assert [sink.last_released() for sink in sinks] == [number, number]
            if count == 99:
                number += 1
                watched = PostgresSteps()
                handles = [[staged(sink, number)] for sink in sinks]
                release(bind(two, connect=watched.connect), number, *handles)
                count = len(watched.done)
                assert watched.done.count("COMMIT") == 1
            at += 1
    assert two.staged() == []


def test_what_one_table_does_not_take_is_in_neither_and_the_error_names_its_sink(two: World) -> None:
    sinks = bind(two, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    two.run(f'INSERT INTO "{two.schema}".orders VALUES (10, %s)', "of somebody else")
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as caught:
        release(sinks, 1, *handles)
    assert caught.value.data["sink"] == "orders"
    assert shown(two) == [[], [10]]
    two.run(f'DELETE FROM "{two.schema}".orders')
    assert release(sinks, 1, *handles) == [{"rows": 2}, {"rows": 2}]
    assert shown(two) == [ids(1), ids(1)]


def test_a_table_that_is_behind_gets_what_it_lacks_with_the_others(two: World) -> None:
    """The sinks have just begun to share a transaction. The first sink had released alone before."""
    sinks = bind(two, new=True)
    first = [[staged(sink, 1)] for sink in sinks]
    assert sinks[0].release(first[0], 1) == {"rows": 2}
    second = [[*first[0], staged(sinks[0], 2)], [*first[1], staged(sinks[1], 2)]]
    assert release(sinks, 2, *second) == [{"rows": 2}, {"rows": 4}]
    assert shown(two) == [ids(1, 2), ids(1, 2)]


def test_one_that_has_nothing_to_release_holds_up_no_other(two: World) -> None:
    sinks = bind(two, new=True)
    assert release(sinks, 1, [staged(sinks[0], 1)], []) == [{"rows": 2}, {"rows": 0}]
    assert release(sinks, 2, [], [staged(sinks[1], 2)]) == [{"rows": 0}, {"rows": 2}]
    assert shown(two) == [ids(1), ids(2)]


def test_a_ledger_that_has_lost_the_entry_of_one_releases_in_neither(two: World) -> None:
    sinks = bind(two, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    two.run(f"DELETE FROM \"{two.staging}\".ledger WHERE sink = 'orders'")
    with pytest.raises(ReleaseRecordLostError, match="Bring the ledger back and resume with"):
        release(sinks, 1, *handles)
    assert shown(two) == [[], []]


def test_a_table_that_another_one_refers_to_is_released_before_it(world: World) -> None:
    world.table("id int PRIMARY KEY, city text", "orders")
    world.table(f'id int REFERENCES "{world.schema}".orders, city text', "lines")
    lines, orders = bind(world, new=True)
    handles = [[staged(orders, 1)], [staged(lines, 1)]]
    assert release([orders, lines], 1, *handles) == [{"rows": 2}, {"rows": 2}]
    assert shown(world) == [ids(1), ids(1)]


def test_tables_that_refer_to_each_other_are_replaced_together(world: World) -> None:
    world.table("id int PRIMARY KEY, city text", "orders")
    world.table(f'id int REFERENCES "{world.schema}".orders, city text', "lines")
    for number, job in enumerate(("monday", "tuesday"), 1):
        lines, orders = bind(world, new=True, job=job, mode="replace")
        handles = [[staged(orders, number)], [staged(lines, number)]]
        assert release([orders, lines], 1, *handles) == [{"rows": 2}, {"rows": 2}]
        assert shown(world) == [ids(number), ids(number)]


@pytest.fixture
def reader(two: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(two.url, autocommit=True) as connection:
        yield connection


def test_a_reader_sees_both_tables_at_one_checkpoint(two: World, reader: psycopg.Connection[Any]) -> None:
    """The reader reads both tables before each statement of the release."""
    seen = []

    class Watched(psycopg.Connection[Any]):
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            seen.append(look())
            return super().execute(query, *args, **more)

        def commit(self) -> None:
            seen.append(look())
            super().commit()

    def look() -> tuple[int, int]:
        count = f'SELECT (SELECT count(*) FROM "{two.schema}".lines), (SELECT count(*) FROM "{two.schema}".orders)'
        [found] = reader.execute(count.encode())
        return int(found[0]), int(found[1])

    sinks = bind(two, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    release(bind(two, connect=Watched.connect), 1, *handles)
    seen.append(look())
    assert set(seen) == {(0, 0), (2, 2)}
