"""Concurrent processes that prepare, create the table, release and replace, and groups in opposite orders."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.sink import ReleaseParticipant
from airflow_provider_ckpt.testing.crash import SimulatedCrash
from tests.sinks.databases import rows_of, stage
from tests.sinks.sql.world import SqlSteps, World, frame_of, staged

NAMES = ("lines", "orders")


def at_once(*acts: Any) -> list[BaseException]:
    errors: list[BaseException] = []
    start = threading.Barrier(len(acts))

    def run(act: Any) -> None:
        start.wait()
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_many_sinks_create_the_ledger_concurrently(world: World) -> None:
    world.table()
    for _ in range(3):
        sinks = [world.bind(f"job{number % 3}") for number in range(6)]
        assert at_once(*(sink.prepare for sink in sinks)) == []
        world.forget()


def test_many_sinks_create_the_table_concurrently(world: World) -> None:
    sinks = [world.bind(f"job{number}", create=True) for number in range(4)]
    for sink in sinks:
        sink.prepare()
    handles: list[Any] = [None] * 4

    def put(number: int) -> None:
        handles[number] = stage(sinks[number], frame_of(number), number)

    assert at_once(*(lambda number=number: put(number) for number in range(4))) == []
    assert at_once(*(lambda number=number: sinks[number].release([handles[number]], 1) for number in range(4))) == []
    assert world.rows() == rows_of(0, 1, 2, 3)


def test_one_of_many_concurrent_replacing_jobs_wins(world: World) -> None:
    """Each job replaces the one before or is superseded. The last one's rows are all there."""
    world.table()
    sinks = [world.new(f"job{number}", mode="replace") for number in range(4)]
    handles = [staged(sink, number) for number, sink in enumerate(sinks)]

    def release(number: int) -> None:
        for _ in range(30):
            try:
                sinks[number].release([handles[number]], 1)
            except SinkUnavailableError:
                continue
            return

    errors = at_once(*(lambda number=number: release(number) for number in range(4)))
    assert {type(error).__name__ for error in errors} <= {"OutputSupersededError"}
    rows = world.rows()
    assert any(rows == rows_of(number) for number in range(4)), rows


def test_groups_with_opposite_orders_release_concurrently(world: World) -> None:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    jobs = {}
    for shift, job in enumerate(("x", "y")):
        order = NAMES if shift else NAMES[::-1]
        sinks = [world.new(job, uid=name, table=name) for name in order]
        rounds = [[[staged(sink, 100 * (shift + 1) + number)] for sink in sinks] for number in range(6)]
        jobs[job] = (order, rounds)
    errors: list[BaseException] = []

    def releaser(job: str) -> None:
        order, rounds = jobs[job]
        sinks = [world.bind(job, uid=name, table=name) for name in order]
        for number, handles in enumerate(rounds, 1):
            for _ in range(60):
                try:
                    sinks[0].release_together(
                        [ReleaseParticipant(s, h) for s, h in zip(sinks, handles, strict=True)], number
                    )
                    break
                except CkptError as error:
                    if not error.retryable:
                        errors.append(error)
                        return
            else:
                errors.append(RuntimeError("never"))

    threads = [threading.Thread(target=releaser, args=(job,)) for job in jobs for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    expected = rows_of(*range(100, 106), *range(200, 206))
    assert world.rows("orders") == world.rows("lines") == expected
    assert world.staging_tables() == 0


def test_a_sink_with_earlier_releases_joins_a_group_with_a_new_sink(world: World) -> None:
    for name in ("lines", "orders"):
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    lines = world.new(uid="lines", table="lines")
    for number in range(1, 4):
        lines.release([staged(lines, number)], number)
    orders = world.new(uid="orders", table="orders")
    both = [ReleaseParticipant(lines, []), ReleaseParticipant(orders, [staged(orders, 1)])]
    assert orders.release_together(both, 3) == [{"rows": 2}, {"rows": 2}]
    both = [ReleaseParticipant(lines, [staged(lines, 4)]), ReleaseParticipant(orders, [staged(orders, 2)])]
    steps = SqlSteps(6, "before")
    dying = [world.bind(uid=name, table=name, connect=world.dying(steps)) for name in ("lines", "orders")]
    with pytest.raises(SimulatedCrash):
        dying[0].release_together(
            [ReleaseParticipant(dying_sink, share.handles) for dying_sink, share in zip(dying, both, strict=True)], 5
        )
    assert lines.release_together(both, 6) == [{"rows": 2}, {"rows": 2}]
    assert world.rows("lines") == rows_of(1, 2, 3, 4)
    assert world.rows("orders") == rows_of(1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 150, 250])
def test_a_batch_that_waits_for_many_releases_is_released_once(world: World, times: int) -> None:
    sink = world.table().new()
    held = staged(sink, 0)
    for number in range(1, times + 1):
        sink.release([staged(sink, number)], number)
    sink.release([held, staged(sink, times + 1)], times + 1)
    assert world.rows() == rows_of(*range(times + 2))
    assert sink.release([held], times + 2) == {"rows": 0}
