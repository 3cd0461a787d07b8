"""Fixtures of the smoke tests: one Spark session, one Airflow database, and two jobs that run beside the tests.

``tests.airflow.conftest`` sets up a throw-away AIRFLOW_HOME when it is imported. A process imports it once, under that
name, so tests of both folders share the home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.airflow.conftest import airflow_db
from tests.smoke.killed_job import KilledJob, run_killed_job
from tests.smoke.readme_example import ReadmeExample, run_readme_example
from tests.support.spark_driver import spark

__all__ = ["airflow_db", "spark"]

JOBS = {"killed_job": run_killed_job, "readme_example": run_readme_example}
"""Fixture → function that runs jobs in processes of their own and returns the evidence."""


@pytest.fixture(scope="session", autouse=True)
def jobs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Any]]]:
    """Run :data:`JOBS` one after another in a thread, those that a selected test uses.

    A driver keeps one core busy and the tests another one. ``test_shell.py``, whose tests wait for the results, is the
    last file, so the wait is short.
    """
    used = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    with ThreadPoolExecutor(1) as thread:
        yield {name: thread.submit(run, tmp_path_factory.mktemp(name)) for name, run in JOBS.items() if name in used}


@pytest.fixture
def killed_job(jobs: Mapping[str, Future[Any]]) -> KilledJob:
    evidence: KilledJob = jobs["killed_job"].result()
    return evidence


@pytest.fixture
def readme_example(jobs: Mapping[str, Future[Any]]) -> ReadmeExample:
    evidence: ReadmeExample = jobs["readme_example"].result()
    return evidence
