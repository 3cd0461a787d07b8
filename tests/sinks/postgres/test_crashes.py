"""Crashes at any step of stage, release and clean-up, a killed server, and a lost reply."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.sinks.errors import RowsRefusedError, SinkUnavailableError
from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.testing.crash import When
from tests.sinks.databases import died, in_this_process, rows_of, stage, stage_request
from tests.sinks.postgres.world import PostgresSteps, Rows, World, frame_of, staged
from tests.support.reply_losing_proxy import ReplyLosingProxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": ["id"]},
    "replace": {"mode": "replace"},
}
WHEN: tuple[When, ...] = ("before", "after")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MODES[request.param]


def changes(world: World, act: Callable[[BoundPostgresSink], Any], **mode: Any) -> int:
    """Return the number of changes that an undisturbed process makes."""
    steps = PostgresSteps()
    act(world.bind(connect=steps.connect, **mode))
    return len(steps.done)


def test_r9_the_next_release_completes_one_that_crashed_at_any_step(world: World, mode: dict[str, Any]) -> None:
    world.table("id int PRIMARY KEY, city text")
    world.run(f'INSERT INTO "{world.schema}".orders VALUES (1, %s)', "of somebody else")
    sink = world.new(**mode)
    other_rows = [] if mode.get("mode") == "replace" else [(1, "of somebody else")]
    count, number = 99, 0
    for when in WHEN:
        at = 1
        while at <= count:
            number += 2
            handles = [staged(sink, number), staged(sink, number + 1)]
            steps = PostgresSteps(at, when)
            assert died(lambda: world.bind(connect=steps.connect, **mode).release(handles, number))  # noqa: B023
            rows = world.rows()
            expected = sorted(other_rows + rows_of(*range(2, number + 2)))
            whole = steps.done[-1:] == ["COMMIT"]
            assert rows == (expected if whole else sorted(other_rows + rows_of(*range(2, number)))) or number == 2
            assert world.bind(**mode).release(handles, number) == {"rows": 4}
            assert (world.rows(), world.staged(), sink.last_released()) == (expected, [], number)
            if count == 99:
                number += 2
                handles = [staged(sink, number), staged(sink, number + 1)]
                count = changes(world, lambda bound: bound.release(handles, number), **mode)  # noqa: B023
                assert count > 5
            at += 1


@pytest.mark.parametrize("when", WHEN)
def test_r5_a_stage_that_crashed_at_any_step_is_invisible_and_collected(world: World, when: When) -> None:
    """First the driver's connection dies, then the connections of its executors, one after the other."""
    sink = world.table().new()
    count = changes(world, lambda bound: staged(bound, 1))
    sink.collect_garbage([], [])
    for at in range(1, count + 1):
        assert died(lambda: staged(world.bind(connect=PostgresSteps(at, when).connect), at, "dead"))  # noqa: B023
        kept = staged(sink, at, "alive")
        assert world.rows() == rows_of(*range(1, at))
        collected = sink.collect_garbage([kept["id"]], ["alive"])
        assert len(collected) <= 1
        assert world.staged() == [kept["id"]]
        assert world.staging_tables() == 1
        sink.release([kept], at)
    assert world.rows() == rows_of(*range(1, count + 1))


@pytest.mark.parametrize("when", WHEN)
def test_the_next_clean_up_completes_one_that_crashed_at_any_step(world: World, when: When) -> None:
    sink = world.table().new()
    kept, count = staged(sink, 1, "alive"), 99
    for at in range(1, 99):
        for number in (2, 3):
            staged(sink, number, "dead")
        if count == 99:
            count = changes(world, lambda bound: bound.collect_garbage([], ["alive"]))
            continue
        if at > count:
            break
        assert died(lambda: world.bind(connect=PostgresSteps(at, when).connect).collect_garbage([], ["alive"]))  # noqa: B023
        sink.collect_garbage([], ["alive"])
        assert (world.staged(), world.staging_tables()) == ([kept["id"]], 1)
    assert sink.release([kept], 1) == {"rows": 2}


@pytest.mark.parametrize("when", WHEN)
def test_the_next_prepare_completes_one_that_crashed_at_any_step(world: World, when: When) -> None:
    steps = PostgresSteps()
    world.table().bind(connect=steps.connect).prepare()
    count = len(steps.done)
    for at in range(1, count + 1):
        world.run(f'DROP SCHEMA "{world.staging}" CASCADE')
        assert died(lambda: world.bind(connect=PostgresSteps(at, when).connect).prepare())  # noqa: B023
        world.new()
        assert world.bind().last_released() == 0


@contextmanager
def interrupted_in_release(world: World, act: Callable[[int], None], at: str) -> Iterator[BoundPostgresSink]:
    """Yield a sink that calls ``act`` with its server process before the statement that begins with ``at``."""

    def connect(**parameters: Any) -> psycopg.Connection[Any]:
        class Watched(psycopg.Connection[Any]):
            def execute(self, query: Any, *args: Any, **more: Any) -> Any:
                text = query if isinstance(query, str) else query.as_string(self)
                if text.startswith(at):
                    act(self.info.backend_pid)
                return super().execute(query, *args, **more)

        return Watched.connect(**parameters)

    yield world.bind(connect=connect)


@pytest.mark.parametrize("at", ["INSERT INTO", "DROP TABLE", "UPDATE"])
def test_a_server_killed_during_a_release_releases_and_loses_nothing(world: World, at: str) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 1)
    handle = staged(sink, 2)

    def crash(pid: int) -> None:
        world.server.crash()

    with interrupted_in_release(world, crash, at) as dying, pytest.raises(SinkUnavailableError, match="could not"):
        dying.release([handle], 2)
    world.server.launch()
    assert (world.rows(), world.bind().last_released()) == (rows_of(1), 1)
    assert world.bind().release([handle], 2) == {"rows": 2}
    assert world.rows() == rows_of(1, 2)


def test_a_connection_ended_by_an_administrator_is_retryable(world: World) -> None:
    sink = world.table().new()
    handle = staged(sink, 1)

    def end(pid: int) -> None:
        world.run("SELECT pg_terminate_backend(%s)", pid)

    with interrupted_in_release(world, end, "DROP TABLE") as dying:
        with pytest.raises(TransientError, match=r"sink 'lake' of job 'orders' could not release checkpoint 1"):
            dying.release([handle], 1)
    assert world.rows() == []
    assert sink.release([handle], 1) == {"rows": 2}


def test_a_commit_with_a_lost_reply_is_found_in_the_ledger(world: World) -> None:
    sink = world.table().new()
    handle, proxy = staged(sink, 1), ReplyLosingProxy(world.server.port, b"COMMIT\0")

    def connect(**parameters: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**parameters, "port": proxy.port})

    with pytest.raises(SinkUnavailableError, match="could not"):
        world.bind(connect=connect).release([handle], 1)
    proxy.close()
    wait_until(lambda: world.rows() == rows_of(1), "the commit")
    assert world.bind().release([handle], 1) == {"rows": 2}
    assert world.bind().release([handle], 2) == {"rows": 0}
    assert world.rows() == rows_of(1)


def test_a_part_whose_commit_is_uncertain_does_not_count(world: World) -> None:
    """The batch fails and is staged again, next to the rows in doubt."""
    sink, proxy = world.table().new(), ReplyLosingProxy(world.server.port, b"COMMIT\0")

    def through_proxy(frame: Rows, function: Any) -> list[Any]:
        sent = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
        sent["conninfo"].cell_contents["port"] = proxy.port
        return in_this_process(frame, function)

    with pytest.raises(SinkUnavailableError, match="stage a batch from an executor"):
        sink.stage(frame_of(1), stage_request(1, "dead", through_proxy))  # type: ignore[arg-type]
    proxy.close()
    kept = staged(sink, 1, "alive")
    sink.collect_garbage([kept["id"]], ["alive"])
    sink.release([kept], 1)
    assert (world.rows(), world.staging_tables()) == (rows_of(1), 0)


def test_a_spark_task_that_ran_twice_releases_its_rows_once(world: World) -> None:
    """The first attempt has committed its COPY, but died before Spark was notified."""
    sink = world.table().new()

    def run_twice(frame: Rows, function: Any) -> list[Any]:
        in_this_process(frame, function)
        return in_this_process(frame, function)

    handle = sink.stage(frame_of(1), stage_request(1, run=run_twice))  # type: ignore[arg-type]
    [[count]] = world.run(f'SELECT count(*) FROM "{world.staging}".{handle["staged"]}')
    assert count == 4
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_r5_a_repeated_batch_is_released_as_it_was_published(world: World) -> None:
    sink = world.table().new()
    stage(sink, Rows([[(1, "first")], [(2, "first")]]), 7)
    again = stage(sink, Rows([[(1, "again")]]), 7)
    sink.release([again], 1)
    assert world.rows() == [(1, "again")]


def test_r9_concurrent_releases_release_once_and_count_the_same(world: World) -> None:
    sink = world.table().new()
    answers: list[dict[str, int]] = []
    for checkpoint in range(1, 11):
        handle, start = staged(sink, checkpoint), threading.Barrier(3)

        def release(bound: BoundPostgresSink) -> None:
            start.wait()  # noqa: B023
            answers.append(bound.release([handle], checkpoint))  # noqa: B023

        threads = [threading.Thread(target=release, args=(world.bind(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [{"rows": 2}] * 30
    assert world.rows() == rows_of(*range(1, 11))


def test_r9_a_zombie_that_hangs_in_its_release_changes_nothing_later(
    world: World,
) -> None:
    """The successor is asked to try again. Then the server ends the zombie's session."""
    sink = world.table().new()
    handle = staged(sink, 1)
    paused, resumes = threading.Event(), threading.Event()

    def pause(pid: int) -> None:
        paused.set()
        resumes.wait(60)

    failure: list[BaseException] = []

    def run() -> None:
        with interrupted_in_release(world, pause, "UPDATE") as zombie:
            try:
                zombie.release([handle], 1)
            except BaseException as error:
                failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    paused.wait(60)
    with pytest.raises(SinkUnavailableError, match="SQLSTATE 55P03"):
        world.bind().release([handle], 1)  # the lock_timeout ends the attempt
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    world.run(query)  # idle_in_transaction_session_timeout would do the same after a minute
    assert world.bind().release([handle], 1) == {"rows": 2}
    resumes.set()
    thread.join()
    assert isinstance(failure[0], SinkUnavailableError)
    assert world.rows() == rows_of(1)


def test_a_killed_driver_frees_its_locks_within_seconds(world: World) -> None:
    """Locks are freed even during a long statement, because the server checks whether its client is alive."""
    sink = world.table().new()
    handle = staged(sink, 1)
    world.run(
        f"""CREATE FUNCTION "{world.schema}".slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$"""
    )
    world.run(f'CREATE TRIGGER slow BEFORE INSERT ON "{world.schema}".orders EXECUTE FUNCTION "{world.schema}".slow()')
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            world.bind().release([handle], 1)
        os._exit(0)
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    wait_until(lambda: world.run(query), "the long statement")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: not world.run(query), "the end of the statement", seconds=60)
    world.run(f'DROP TRIGGER slow ON "{world.schema}".orders')
    assert sink.release([handle], 1) == {"rows": 2}


def test_an_unreachable_server_is_retryable_and_the_error_has_no_password(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def connect(**parameters: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**parameters, "port": port})

    with pytest.raises(SinkUnavailableError, match="could not read its ledger") as raised:
        world.bind(connect=connect).last_released()
    assert "s3cr3tPW" not in f"{raised.value} {raised.value.data} {raised.value.__context__}"


def test_an_error_of_the_staging_database_names_the_action(world: World) -> None:
    """The server refuses the statement permanently, for example because the user lost its rights."""
    sink = world.table().new()
    world.run(f'ALTER SCHEMA "{world.staging}" RENAME TO "{world.staging} gone"')
    world.run(f'CREATE SCHEMA "{world.staging}"')
    world.run(f'CREATE VIEW "{world.staging}".ledger AS SELECT 1')
    with pytest.raises(RowsRefusedError, match="SQLSTATE 42P01"):
        sink.staged()
