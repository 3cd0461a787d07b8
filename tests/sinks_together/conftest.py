"""One broker and one database server for the tests of this folder, which need both: ``make sinks``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.sinks_together.world import World
from tests.support import mariadb
from tests.support.mariadb import MariaDB
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.sinks)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[PostgreSQL]:
    if initdb() is None:
        pytest.skip(NOT_INSTALLED)
    with PostgreSQL(fsync="on") as running:
        yield running


@pytest.fixture(scope="session")
def maria() -> Iterator[MariaDB]:
    if not mariadb.is_installed():
        pytest.skip(mariadb.NOT_INSTALLED)
    with MariaDB() as running:
        yield running


@pytest.fixture
def world(server: PostgreSQL, maria: MariaDB, broker: Broker, tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, server, maria, broker) as running:
        yield running
