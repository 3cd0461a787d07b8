"""A frozen server: the sink gives it up in time and tries again later, and no row is released twice (R9)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.postgres.address import Address
from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.sinks.postgres.copying import copier
from airflow_provider_ckpt.sinks.postgres.database import Database
from airflow_provider_ckpt.sinks.postgres.staging import known_rows
from airflow_provider_ckpt.sinks.sink import SinkContext
from tests.sinks.databases import rows_of
from tests.sinks.freezing import IN_TIME, once_before, try_release
from tests.sinks.postgres.world import Rows, World, staged
from tests.support.processes import is_alive, parent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def freezing(at: str, freeze: Callable[[], object]) -> Any:
    """Return a connect function. The server freezes before the first statement, or commit, that starts with ``at``."""
    about_to = once_before(at, freeze)

    class Freezing(psycopg.Connection[Any]):
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            about_to(query if isinstance(query, str) else query.as_string(self))
            return super().execute(query, *args, **more)

        def commit(self) -> None:
            about_to("COMMIT")
            super().commit()

    return Freezing.connect


def impatient(world: World, connect: Any = psycopg.connect) -> BoundPostgresSink:
    address = Address.of_url(f"{world.url}?connect_timeout=2")
    assert address is not None
    return BoundPostgresSink(world.sink().settings, SinkContext("orders", "lake"), Database(address, connect, 1))


@pytest.mark.parametrize("at", ["INSERT INTO", "COMMIT"])
def test_r9_a_release_to_a_frozen_server_fails_and_is_retried(world: World, at: str) -> None:
    world.table()
    sink, cold = world.new(), ExitStack()
    handle = staged(sink, 1)
    dying = impatient(world, freezing(at, lambda: cold.enter_context(world.server.frozen())))
    with cold:
        begun = time.monotonic()
        with pytest.raises(SinkUnavailableError, match=r"has not answered for 1 s \(statement_timeout\)"):
            dying.release([handle], 1)
        with pytest.raises(SinkUnavailableError, match="could not"):
            impatient(world).release([handle], 1)
        assert time.monotonic() - begun < IN_TIME
    wait_until(lambda: try_release(sink, handle), "a release by the next try")
    assert (world.rows(), sink.release([handle], 1), world.rows()) == (rows_of(1), {"rows": 2}, rows_of(1))


def test_freezing_a_server_ignores_an_ended_connection(world: World) -> None:
    """The postmaster is paused itself and cannot reap the ended backend, so the backend stays a zombie."""
    with closing(psycopg.connect(world.url.replace("+psycopg2", ""))) as connection:
        backend = connection.info.backend_pid
        os.kill(parent(backend), signal.SIGSTOP)
        os.kill(backend, signal.SIGTERM)
        wait_until(lambda: not is_alive(backend), "the end of the connection")
        with world.server.frozen():
            pass


def test_an_executor_abandons_a_copy_to_a_frozen_server(world: World) -> None:
    """The server may freeze at any moment of a COPY."""
    world.table()
    cold = ExitStack()

    def batches() -> Any:
        yield from Rows([]).batches(rows_of(1))
        cold.enter_context(world.server.frozen())

    copy = f'COPY "{world.schema}".orders (id, city, part, row) FROM STDIN'
    world.run(f'ALTER TABLE "{world.schema}".orders ADD part bigint, ADD row bigint')
    with cold:
        begun = time.monotonic()
        conninfo = psycopg.conninfo.conninfo_to_dict(world.url)
        run = copier(conninfo, [copy], 1, arrow_types=["int32", "string"], sample=known_rows(), numbers_rows=True)
        answer = run(7, batches())
        assert time.monotonic() - begun < IN_TIME
    assert (answer["rows"], answer["error"]["sqlstate"]) == (0, None)
    wait_until(lambda: world.rows() == [], "nothing of it is there")


def test_a_long_statement_of_a_live_server_is_not_ended(world: World) -> None:
    address = Address.of_url(world.url)
    assert address is not None
    database, failures = Database(address, timeout=30), world.table().new()._failures
    with database.transaction("read_state", failures, AssertionError) as connection:
        connection.execute("SELECT pg_sleep(1.5)")


def test_the_sinks_statement_timeout_limits_a_statement(world: World) -> None:
    bound = world.sink(statement_timeout=90).bind(SinkContext("orders", "lake"))
    assert isinstance(bound, BoundPostgresSink)
    assert bound._database.timeout == 90
    assert "statement_timeout" not in world.sink(statement_timeout=90).definition(), "it may change"
