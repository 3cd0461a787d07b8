"""One server for the tests of a process, and a schema for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from tests.sinks.postgres.world import World
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb
from tests.support.spark_driver import spark

__all__ = ["spark"]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgreSQL]:
    if initdb() is None:
        pytest.skip(NOT_INSTALLED)
    with PostgreSQL() as running:
        yield running


@pytest.fixture
def world(server: PostgreSQL) -> World:
    number = next(_NUMBERS)
    made = World(server, f"shop {number}", f"ckpt {number}")
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{made.schema}"'.encode())
    return made
