"""One Spark driver and one server of each kind for all random jobs of a run, and a summary of their draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.random_jobs.drawn import summary
from tests.support import mariadb, postgres
from tests.support.spark_driver import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgreSQL]:
    if postgres.initdb() is None:
        pytest.skip(postgres.NOT_INSTALLED)
    with postgres.PostgreSQL() as running:
        yield running


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDB]:
    if not mariadb.is_installed():
        pytest.skip(mariadb.NOT_INSTALLED)
    with mariadb.MariaDB() as running:
        yield running


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call" and hasattr(report, "user_properties")
    ]
    lines = summary(reports)
    if lines:
        terminalreporter.section("random draws")
        terminalreporter.write_line("drawn with how many jobs each:")  # CI prints the lines after these words
        for line in lines:
            terminalreporter.write_line(line)
