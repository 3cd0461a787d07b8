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


_EACH_STEP = (
    "group_r9_a_crash_at_any_step",
    "a_release_that_crashed_at_any_step_is_finished_by_a_higher_checkpoint",
    "r5_a_release_that_crashed_is_finished_behind_a_clean_up",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most tests with a crash at every step as slow, because together they take a minute.

    Of TestAppend, only the test of a release repeated by the next driver stays fast.
    """
    for item in items:
        if any(f"TestAppend::test_{one}" in item.nodeid for one in _EACH_STEP):
            item.add_marker("slow")
