"""Tables released in one transaction. They show all of a checkpoint, or nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError
from airflow_provider_ckpt.sinks.sink import ReleaseParticipant
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from airflow_provider_ckpt.testing.crash import SimulatedCrash, When
from tests.sinks.databases import rows_of
from tests.sinks.sql.world import SqlSteps, World, staged

WHEN: tuple[When, ...] = ("before", "after")
NAMES = ("lines", "orders")


@pytest.fixture
def two_tables(world: World) -> World:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    return world


def bind(world: World, new: bool = False, **given: Any) -> list[BoundSqlSink]:
    make = world.new if new else world.bind
    return [make(uid=name, table=name, **given) for name in NAMES]


def release(sinks: list[BoundSqlSink], number: int, *handles: Any) -> list[dict[str, int]]:
    participants = [
        ReleaseParticipant(sink, list(sink_handles)) for sink, sink_handles in zip(sinks, handles, strict=True)
    ]
    return sinks[0].release_together(participants, number)


@pytest.mark.slow
def test_r9_a_crashed_release_of_two_tables_is_in_both_or_neither(two_tables: World) -> None:
    sinks, count, number = bind(two_tables, new=True), 99, 0
    for when in WHEN:
        at = 1
        while at <= count:
            number += 1
            handles = [[staged(sink, number)] for sink in sinks]
            steps = SqlSteps(at, when)
            with pytest.raises(SimulatedCrash):
                release(bind(two_tables, connect=two_tables.dying(steps)), number, *handles)
            lines, orders = (two_tables.rows(name) for name in NAMES)
            assert lines == orders == rows_of(*range(1, number + ("COMMIT" in steps.done)))
            assert release(bind(two_tables), number, *handles) == [{"rows": 2}, {"rows": 2}]
            assert [two_tables.rows(name) for name in NAMES] == [rows_of(*range(1, number + 1))] * 2
            assert (two_tables.staged(), [sink.last_released() for sink in sinks]) == ([], [number, number])
            if count == 99:
                number += 1
                watched = SqlSteps()
                handles = [[staged(sink, number)] for sink in sinks]
                release(bind(two_tables, connect=two_tables.dying(watched)), number, *handles)
                count = len(watched.done)
            at += 1


def test_a_row_that_one_table_refuses_prevents_the_release_of_both(two_tables: World) -> None:
    sinks = bind(two_tables, new=True)
    handles = [[staged(sink, 1)] for sink in sinks]
    two_tables.put((10, "of somebody else"))
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as caught:
        release(sinks, 1, *handles)
    assert caught.value.data["sink"] == "orders"
    assert two_tables.rows("lines") == []
    two_tables.run(f"DELETE FROM {two_tables.schema}orders")
    assert release(sinks, 1, *handles) == [{"rows": 2}, {"rows": 2}]
    assert [two_tables.rows(name) for name in NAMES] == [rows_of(1)] * 2
