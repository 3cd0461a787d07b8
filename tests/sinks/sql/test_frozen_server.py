"""A frozen server: the sink gives it up in time and tries again later, and no row is released twice (R9)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkUnavailableError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from airflow_provider_ckpt.sinks.sql.mysql_dialect import MySQLDialect
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
from tests.sinks.databases import rows_of
from tests.sinks.freezing import IN_TIME, once_before, try_release
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import staged
from tests.support.waiting import wait_until


def freezing(at: str, freeze: Callable[[], object]) -> Any:
    """Return a connect function. The server freezes before the first statement, or commit, that starts with ``at``."""
    about_to = once_before(at, freeze)

    class Freezing(pymysql.connections.Connection):  # type: ignore[misc]
        def query(self, statement: Any, unbuffered: bool = False) -> Any:
            about_to(statement if isinstance(statement, str) else statement.decode())
            return super().query(statement, unbuffered)

        def commit(self) -> None:
            about_to("COMMIT")
            super().commit()

    return Freezing


@pytest.mark.parametrize("at", ["INSERT INTO", "COMMIT"])
def test_r9_a_release_to_a_frozen_server_fails_and_is_retried(maria: MariaDBWorld, at: str) -> None:
    url, cold = maria.table().url + "&connect_timeout=2", ExitStack()
    sink = maria.new(url=url)
    handle = staged(sink, 1)
    freeze = freezing(at, lambda: cold.enter_context(maria.server.frozen()))
    dying = maria.bind(url=f"{url}&read_timeout=1", connect=freeze)
    with cold:
        begun = time.monotonic()
        with pytest.raises(SinkUnavailableError, match="timed out"):
            dying.release([handle], 1)
        with pytest.raises(SinkUnavailableError, match="could not"):
            sink.release([handle], 1)
        assert time.monotonic() - begun < IN_TIME
    wait_until(lambda: try_release(sink, handle), "a release by the next try")
    assert (maria.rows(), sink.release([handle], 1), maria.rows()) == (rows_of(1), {"rows": 2}, rows_of(1))


def test_the_sinks_statement_timeout_overrides_the_connections(maria: MariaDBWorld) -> None:
    sink = SqlSink("orders", url=maria.url + "&read_timeout=7", statement_timeout=2.5)
    bound = sink.bind(SinkContext("orders", "lake"))
    assert isinstance(bound, BoundSqlSink)
    assert bound._database.parameters["read_timeout"] == 2.5
    shop = Address.of_connection(Connection("shop", "mysql", host="h", extra={"read_timeout": 7}))
    assert MySQLDialect().connect_parameters(shop.parameters)["read_timeout"] == 7
    assert "statement_timeout" not in sink.definition(), "it may change"


@pytest.mark.parametrize("given", [0, -1, 0.5, 86_401, "60", True])
def test_an_invalid_statement_timeout_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSinkError, match="statement_timeout"):
        SqlSink("orders", url="sqlite:////a.db", statement_timeout=given).validate()
