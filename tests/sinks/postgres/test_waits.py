"""A batch is staged although the server does not take rows for a moment."""

from __future__ import annotations

import psycopg
import pytest

from airflow_provider_ckpt.testing.crash import When
from tests.sinks.databases import rows_of
from tests.sinks.postgres.world import PostgresSteps, World, frame_of
from tests.support.patience import FailsOnce, Waits


class FailingOnceSteps(PostgresSteps):
    """Connections that fail once in a way that passes."""

    def __init__(self, at: int | None, when: When) -> None:
        super().__init__()
        self.once = FailsOnce(("SELECT", "SET"), at, when, psycopg.OperationalError("server closed the connection"))
        self.step = self.once.step  # type: ignore[method-assign]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_staging_table_is_created_once_after_a_failure_at_any_step(world: World, when: When) -> None:
    """A commit that fails after its change has lost its reply. The table is there then."""
    world.table()
    world.new()
    steps, waits = FailingOnceSteps(None, when), Waits()
    world.bind(connect=steps.connect).stage(frame_of(1), waits.request(1))  # type: ignore[arg-type]
    count, handles = steps.once.changes, []
    assert (count > 3, waits.causes) == (True, [])
    for at in range(1, count + 1):
        steps, waits = FailingOnceSteps(at, when), Waits()
        sink = world.bind(connect=steps.connect)
        handles.append(sink.stage(frame_of(at), waits.request(at)))  # type: ignore[arg-type]
        assert waits.causes == [
            "sink 'lake' of job 'orders' could not create a staging table: server closed the connection"
        ]
    assert world.bind().release(handles, 1) == {"rows": 2 * count}
    assert world.rows() == sorted(rows_of(*range(1, count + 1)))


def test_stage_waits_while_the_server_is_read_only(world: World) -> None:
    world.table()
    sink = world.new()
    world.run("ALTER ROLE airflow SET default_transaction_read_only = on")

    def ends() -> None:
        with psycopg.connect(world.url, autocommit=True, options="-c default_transaction_read_only=off") as connection:
            connection.execute("ALTER ROLE airflow RESET default_transaction_read_only")

    waits = Waits(ends)
    try:
        handle = sink.stage(frame_of(1), waits.request(1))  # type: ignore[arg-type]
    finally:
        ends()
    assert waits.causes == [
        "sink 'lake' of job 'orders' could not create a staging table: SQLSTATE 25006, ReadOnlySqlTransaction"
    ]
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_stage_waits_for_a_locked_table(world: World) -> None:
    """The server ends an attempt after 10 s, and the table is locked for longer."""
    world.table()
    sink = world.new()
    with psycopg.connect(world.url) as other:
        other.execute(f'LOCK TABLE "{world.schema}".orders IN ACCESS EXCLUSIVE MODE'.encode())
        waits = Waits(other.rollback)
        handle = sink.stage(frame_of(1), waits.request(1))  # type: ignore[arg-type]
    assert waits.causes == [
        "sink 'lake' of job 'orders' could not create a staging table: SQLSTATE 55P03, LockNotAvailable"
    ]
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)
