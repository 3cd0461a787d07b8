"""A batch is staged although the database fails for a moment, at whatever step."""

from __future__ import annotations

import sqlite3
from typing import cast

import pymysql
import pytest

from airflow_provider_ckpt.testing.crash import When
from tests.sinks.databases import rows_of
from tests.sinks.sql.world import SqlSteps, World, frame_of
from tests.support.patience import FailsOnce, Waits


def steps_of(world: World, at: int | None, when: When) -> SqlSteps:
    locked = sqlite3.OperationalError("database is locked")
    lost = pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
    return cast(SqlSteps, FailsOnce(SqlSteps.READS, at, when, locked if world.kind == "sqlite" else lost))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_staging_table_is_created_once_after_a_failure_at_any_step(world: World, when: When) -> None:
    """A step that fails after its change has lost its reply. The table may be there then."""
    world.table()
    world.new()
    steps, waits = steps_of(world, None, when), Waits()
    world.bind(connect=world.dying(steps)).stage(frame_of(1), waits.request(1))  # type: ignore[arg-type]
    count, handles = cast(FailsOnce, steps).changes, []
    assert (count > 3, waits.causes) == (True, [])
    for at in range(1, count + 1):
        steps, waits = steps_of(world, at, when), Waits()
        sink = world.bind(connect=world.dying(steps))
        handles.append(sink.stage(frame_of(at), waits.request(at)))  # type: ignore[arg-type]
        assert len(waits.causes) == 1
        assert waits.causes[0].startswith("sink 'lake' of job 'orders' could not ")
    assert world.bind().release(handles, 1) == {"rows": 2 * count}
    assert sorted(world.rows()) == rows_of(*range(1, count + 1))
