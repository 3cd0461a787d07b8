"""Crashes at any step of stage, release and clean-up, a killed server, and a lost reply."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pymysql
import pytest

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.sinks.errors import (
    GarbageLeftError,
    ReleaseRecordLostError,
    RowsRefusedError,
    SinkUnavailableError,
)
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from airflow_provider_ckpt.testing.crash import When
from tests.sinks.databases import died, in_this_process, rows_of, stage, stage_request
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import Rows, SqlSteps, World, frame_of, staged
from tests.support.mariadb import PASSWORD
from tests.support.reply_losing_proxy import ReplyLosingProxy
from tests.support.waiting import wait_until

MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": ["id"]},
    "replace": {"mode": "replace"},
}
KEYED = "id int NOT NULL PRIMARY KEY, city text"
WHEN: tuple[When, ...] = ("before", "after")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MODES[request.param]


def changes(world: World, act: Callable[[BoundSqlSink], Any], **mode: Any) -> int:
    """Return the number of changes that an undisturbed process makes."""
    steps = SqlSteps()
    act(world.bind(connect=world.dying(steps), **mode))
    return len(steps.done)


@pytest.mark.slow
def test_r9_the_next_release_completes_one_that_crashed_at_any_step(world: World, mode: dict[str, Any]) -> None:
    world.table(KEYED)
    world.put((1, "of somebody else"))
    sink = world.new(**mode)
    other_rows = [] if mode.get("mode") == "replace" else [(1, "of somebody else")]
    count, number = 99, 0
    for when in WHEN:
        at = 1
        while at <= count:
            number += 2
            handles = [staged(sink, number), staged(sink, number + 1)]
            steps = SqlSteps(at, when)
            assert died(lambda: world.bind(connect=world.dying(steps), **mode).release(handles, number))  # noqa: B023
            rows = world.rows()
            expected = sorted(other_rows + rows_of(*range(2, number + 2)))
            whole = "COMMIT" in steps.done
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
        assert died(lambda: staged(world.bind(connect=world.dying(SqlSteps(at, when))), at, "dead"))  # noqa: B023
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
        assert died(lambda: world.bind(connect=world.dying(SqlSteps(at, when))).collect_garbage([], ["alive"]))  # noqa: B023
        sink.collect_garbage([], ["alive"])
        assert (world.staged(), world.staging_tables()) == ([kept["id"]], 1)
    assert sink.release([kept], 1) == {"rows": 2}


@pytest.mark.parametrize("when", WHEN)
def test_the_next_prepare_completes_one_that_crashed_at_any_step(world: World, when: When) -> None:
    steps = SqlSteps()
    world.table().bind(connect=world.dying(steps)).prepare()
    count = len(steps.done)
    for at in range(1, count + 1):
        world.forget()
        assert died(lambda: world.bind(connect=world.dying(SqlSteps(at, when))).prepare())  # noqa: B023
        world.new()
        assert world.bind().last_released() == 0


def once_after_registration(act: Callable[[], None]) -> Callable[[str, Any], None]:
    """Return a watch that calls ``act`` before the session that creates the staging table."""
    seen: list[str] = []

    def watch(statement: str, _: Any) -> None:
        is_noted = any("INSERT" in earlier and "ckpt_staged" in earlier for earlier in seen)
        seen.append(statement)
        if is_noted and statement.startswith(("SET SESSION sql_mode", "PRAGMA synchronous")):
            seen.clear()
            act()

    return watch


def interrupted_in_release(world: World, act: Callable[[], None], at: str) -> BoundSqlSink:
    """Bind a sink that calls ``act`` before its first statement that begins with ``at``."""
    is_over = threading.Event()

    def watch(statement: str, _: Any) -> None:
        if statement.lstrip().startswith(at) and not is_over.is_set():
            is_over.set()
            act()

    return world.bind(connect=world.watched(watch))


@pytest.mark.parametrize("at", ["INSERT INTO `shop", "INSERT INTO `shop %d`.ckpt_released", "UPDATE", "DROP TABLE"])
def test_a_server_killed_during_a_release_has_released_all_or_nothing(maria: MariaDBWorld, at: str) -> None:
    """If the server is killed before the DROP, everything is released."""
    sink = maria.table().new()
    sink.release([staged(sink, 1)], 1)
    handle = staged(sink, 2)
    at = at.replace("shop %d", maria.database)
    dying = interrupted_in_release(maria, maria.server.crash, at)
    is_released = at == "DROP TABLE"
    if is_released:
        assert dying.release([handle], 2) == {"rows": 2}
    else:
        with pytest.raises(SinkUnavailableError, match=r"could not release checkpoint 2: error 20\d\d"):
            dying.release([handle], 2)
    maria.server.launch()
    assert (maria.rows(), maria.bind().last_released()) == ((rows_of(1, 2), 2) if is_released else (rows_of(1), 1))
    assert maria.bind().release([handle], 2) == {"rows": 2}
    assert (maria.rows(), maria.staging_tables(), maria.staged()) == (rows_of(1, 2), 0, [])


def test_a_connection_ended_by_an_administrator_is_retryable(maria: MariaDBWorld) -> None:
    sink = maria.table().new()
    handle = staged(sink, 1)

    def end() -> None:
        query = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"
        for (session_id,) in maria.run(query, maria.database):
            maria.run(f"KILL {session_id}")

    with pytest.raises(TransientError, match=r"sink 'lake' of job 'orders' could not release checkpoint 1"):
        interrupted_in_release(maria, end, "UPDATE").release([handle], 1)
    assert maria.rows() == []
    assert sink.release([handle], 1) == {"rows": 2}


def test_a_commit_with_a_lost_reply_is_found_in_the_ledger(maria: MariaDBWorld) -> None:
    sink = maria.table().new()
    handle, proxy = staged(sink, 1), ReplyLosingProxy(maria.server.port, b"\x03COMMIT")

    def connect(**parameters: Any) -> Any:
        return pymysql.connect(**{**parameters, "port": proxy.port})

    with pytest.raises(SinkUnavailableError, match="could not"):
        maria.bind(connect=connect).release([handle], 1)
    proxy.close()
    wait_until(lambda: maria.rows() == rows_of(1), "the commit")
    assert maria.bind().release([handle], 1) == {"rows": 2}
    assert maria.bind().release([handle], 2) == {"rows": 0}
    assert (maria.rows(), maria.staging_tables()) == (rows_of(1), 0)


def test_a_part_whose_commit_is_uncertain_does_not_count(maria: MariaDBWorld) -> None:
    """The batch fails and is staged again, next to the rows in doubt."""
    sink, proxy = maria.table().new(), ReplyLosingProxy(maria.server.port, b"\x03COMMIT")

    def through_proxy(frame: Rows, function: Any) -> list[Any]:
        for cell in function.__closure__:  # the parameters that are sent to executors
            if isinstance(cell.cell_contents, dict):
                cell.cell_contents["port"] = proxy.port
        return in_this_process(frame, function)

    with pytest.raises(SinkUnavailableError, match="stage a batch from an executor"):
        sink.stage(frame_of(1), stage_request(1, "dead", through_proxy))  # type: ignore[arg-type]
    proxy.close()
    kept = staged(sink, 1, "alive")
    sink.collect_garbage([kept["id"]], ["alive"])
    sink.release([kept], 1)
    assert (maria.rows(), maria.staging_tables()) == (rows_of(1), 0)


def test_a_spark_task_that_ran_twice_releases_its_rows_once(world: World) -> None:
    """The first attempt has committed its rows, but died before Spark was notified."""
    sink = world.table().new()

    def run_twice(frame: Rows, function: Any) -> list[Any]:
        in_this_process(frame, function)
        return in_this_process(frame, function)

    handle = sink.stage(frame_of(1), stage_request(1, run=run_twice))  # type: ignore[arg-type]
    [[count]] = world.run(f"SELECT count(*) FROM {world.schema}{handle['staged']}")
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

        def release(bound: BoundSqlSink) -> None:
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
    maria: MariaDBWorld,
) -> None:
    """The successor is asked to try again. Then the server ends the zombie's session."""
    sink = maria.table().new()
    handle = staged(sink, 1)
    paused, resumes = threading.Event(), threading.Event()

    def pause() -> None:
        paused.set()
        resumes.wait(60)

    failure: list[BaseException] = []

    def run() -> None:
        try:
            interrupted_in_release(maria, pause, "UPDATE").release([handle], 1)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    paused.wait(60)
    with pytest.raises(SinkUnavailableError, match="error 1205"):
        maria.bind().release([handle], 1)  # innodb_lock_wait_timeout ends the attempt
    query = "SELECT id FROM information_schema.processlist WHERE db = %s AND command = 'Sleep'"
    for (session_id,) in maria.run(query, maria.database):  # wait_timeout would do the same after a minute
        maria.run(f"KILL {session_id}")
    assert maria.bind().release([handle], 1) == {"rows": 2}
    resumes.set()
    thread.join()
    assert isinstance(failure[0], SinkUnavailableError)
    assert maria.rows() == rows_of(1)


def test_r9_a_zombie_changes_nothing_after_its_successors_release(world: World) -> None:
    """The zombie stops before it takes the lock."""
    sink = world.table().new()
    old, new = staged(sink, 1), staged(sink, 2)
    zombie = world.bind()
    assert zombie.last_released() == 0
    sink.release([old], 1)
    sink.release([new], 2)
    assert zombie.release([old], 1) == {"rows": 0}
    assert (world.rows(), zombie.last_released()) == (rows_of(1, 2), 2)


def test_r9_a_release_to_a_locked_sqlite_file_is_retryable(lite: SQLiteWorld) -> None:
    sink = lite.table().new()
    handle = staged(sink, 1)

    def impatient(**parameters: Any) -> Any:
        return sqlite3.connect(**{**parameters, "timeout": 0.1})

    with closing(lite.open()) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkUnavailableError, match="database is locked"):
            lite.bind(connect=impatient).release([handle], 1)
        other.execute("ROLLBACK")
    assert sink.release([handle], 1) == {"rows": 2}


def test_a_driver_killed_during_its_release_frees_its_locks(world: World) -> None:
    sink = world.table().new()
    handle, (read, write) = staged(sink, 1), os.pipe()

    def pause() -> None:
        os.write(write, b"x")
        threading.Event().wait(600)

    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            interrupted_in_release(world, pause, "UPDATE").release([handle], 1)
        os._exit(0)
    assert os.read(read, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_an_unreachable_server_is_retryable_and_the_error_has_no_password(
    maria: MariaDBWorld,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def connect(**parameters: Any) -> Any:
        return pymysql.connect(**{**parameters, "port": port})

    with pytest.raises(SinkUnavailableError, match="could not read its ledger: error 2003") as raised:
        maria.bind(connect=connect).last_released()
    assert PASSWORD not in f"{raised.value} {raised.value.data} {raised.value.__context__}"


def test_a_deadlock_is_retryable(maria: MariaDBWorld) -> None:
    """A larger transaction of another client waits for the sink's lock.

    The server rolls the sink's transaction back.
    """
    sink = maria.table(KEYED).new(mode="upsert", key=["id"])
    maria.put(*((number, "old") for number in range(100, 200)), (10, "old"))
    handle = staged(sink, 1)
    with closing(maria.server.connect(autocommit=False, database=maria.database)) as other:
        cursor = other.cursor()
        cursor.execute("UPDATE orders SET city = 'x' WHERE id <> 10")
        cursor.execute("SELECT * FROM orders WHERE id = 11 FOR UPDATE")
        cursor.execute("UPDATE orders SET city = 'x' WHERE id = 10")
        waiting = threading.Thread(target=lambda: cursor.execute("SELECT * FROM ckpt_ledger FOR UPDATE"))

        def late(statement: str, _: Any) -> None:
            if "ON DUPLICATE KEY" in statement and "ckpt_" in statement:
                waiting.start()
                wait_until(lambda: bool(maria.run("SELECT 1 FROM information_schema.innodb_lock_waits")), "the wait")

        with pytest.raises(SinkUnavailableError, match="error 1213"):
            maria.bind(mode="upsert", key=["id"], connect=maria.watched(late)).release([handle], 1)
        waiting.join()
        other.rollback()
    assert sink.release([handle], 1) == {"rows": 2}


def test_a_fenced_attempt_creates_no_staging_table(world: World) -> None:
    """The attempt has registered its staging table and pauses. The driver that takes over deletes the registration."""
    sink = world.table().new()

    def collect() -> None:
        sink.collect_garbage([], ["alive"])

    with pytest.raises(ReleaseRecordLostError, match="is no longer recorded"):
        staged(world.bind(connect=world.watched(once_after_registration(collect))), 1, "dead")
    assert (world.staging_tables(), world.staged()) == (0, [])


def test_a_clean_up_waits_for_the_creation_of_a_staging_table(maria: MariaDBWorld) -> None:
    sink = maria.table().new()

    def collect() -> None:
        with pytest.raises(GarbageLeftError, match="error 1205"):
            maria.bind().collect_garbage([], [])

    making = interrupted_in_release(maria, collect, "CREATE TABLE")
    handle = staged(making, 1)
    assert sink.release([handle], 1) == {"rows": 2}


def test_the_next_release_drops_a_staging_table_that_was_in_use(maria: MariaDBWorld) -> None:
    """Another client reads the staging table, for example a backup. The release succeeds nevertheless."""
    sink = maria.table().new()
    handle = staged(sink, 1)
    with closing(maria.server.connect(autocommit=False, database=maria.database)) as other:
        other.cursor().execute(f"SELECT * FROM {handle['staged']}")
        assert sink.release([handle], 1) == {"rows": 2}
        assert (maria.rows(), maria.staged()) == (rows_of(1), [handle["id"]])
    assert sink.release([handle], 1) == {"rows": 2}
    assert (maria.staging_tables(), maria.staged()) == (0, [])


def test_an_error_of_the_staging_database_names_the_action(world: World) -> None:
    """The database refuses the statement permanently."""
    sink = world.table().new()
    world.run(f"DROP TABLE {world.schema}ckpt_staged")
    world.run(f"CREATE TABLE {world.schema}ckpt_staged (job int)")
    with pytest.raises(RowsRefusedError, match=r"to list its staged rows: .*handle"):
        sink.staged()
