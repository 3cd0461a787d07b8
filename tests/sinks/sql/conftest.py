"""One server for the tests of a process, and a database or a file for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import World
from tests.support.mariadb import NOT_INSTALLED, MariaDB, is_installed
from tests.support.spark_driver import spark

__all__ = ["spark"]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDB]:
    if not is_installed():
        pytest.skip(NOT_INSTALLED)
    with MariaDB() as running:
        yield running


@pytest.fixture
def maria(server: MariaDB) -> MariaDBWorld:
    return MariaDBWorld(server, f"shop {next(_NUMBERS)}")


@pytest.fixture
def setting(maria: MariaDBWorld) -> Iterator[Any]:
    """Yield a function that changes a setting of the server for new sessions, until the test ends."""
    undo = []

    def change(name: str, value: str) -> None:
        [(before,)] = maria.run(f"SELECT @@global.{name}")
        undo.append((name, before))
        maria.run(f"SET GLOBAL {name} = {value}")

    yield change
    for name, before in undo:
        maria.run(f"SET GLOBAL {name} = {before}")


@pytest.fixture
def lite(tmp_path: Path) -> SQLiteWorld:
    return SQLiteWorld(tmp_path / "shop 1.db")


@pytest.fixture(params=[pytest.param("mariadb", marks=pytest.mark.slow), "sqlite"])
def world(request: pytest.FixtureRequest) -> World:
    """Run the test with both databases."""
    chosen: World = request.getfixturevalue("maria" if request.param == "mariadb" else "lite")
    return chosen
