"""Timeouts of statements, without a server. Each statement has its own deadline."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator

import psycopg
import pytest

from airflow_provider_ckpt.sinks.postgres.copying import StatementWatchdog

SECONDS = 0.2


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield (the client's socket, the server's socket)."""
    client_end, server_end = socket.socketpair()
    with client_end, server_end:
        yield client_end, server_end


def test_a_statement_without_an_answer_is_ended_with_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    line, _ = ends
    with (
        StatementWatchdog(line, SECONDS) as server,
        pytest.raises(psycopg.OperationalError, match=r"has not answered for 0.2 s"),
        server.limit_time(),
    ):
        assert line.recv(1) == b"", "until it is cut"
        raise psycopg.OperationalError("consuming input failed: values of rows")


def test_each_statement_has_its_own_time_limit(ends: tuple[socket.socket, socket.socket]) -> None:
    line, server_end = ends
    begun, statements = time.monotonic(), 0
    with StatementWatchdog(line, SECONDS) as server:
        while time.monotonic() < begun + 4 * SECONDS:
            with server.limit_time():
                server_end.sendall(b"x")
                assert line.recv(1) == b"x"
            statements += 1
    assert statements > 4


def test_an_idle_connection_is_not_ended(ends: tuple[socket.socket, socket.socket]) -> None:
    """Spark may take any time between two statements."""
    line, server_end = ends
    with StatementWatchdog(line, SECONDS) as server:
        with server.limit_time():
            pass
        assert select.select([line], [], [], 4 * SECONDS)[0] == [], "its end would be there to read"
        server_end.sendall(b"x")
        assert line.recv(1) == b"x"


def test_an_error_within_the_time_limit_is_raised_unchanged(ends: tuple[socket.socket, socket.socket]) -> None:
    line, _ = ends
    with (
        StatementWatchdog(line, 60.0) as server,
        pytest.raises(psycopg.errors.UniqueViolation, match="twice"),
        server.limit_time(),
    ):
        raise psycopg.errors.UniqueViolation("twice")
