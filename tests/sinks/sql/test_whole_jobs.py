"""A job in its own process, with a table and a folder. Each row is in both once, and the password is in no file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks.database_job import ODD
from tests.sinks.sql.sql_job import SqlJob
from tests.sinks.sql.world import World
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def job(world: World, tmp_path: Path) -> SqlJob:
    return SqlJob(world, tmp_path)


@pytest.mark.slow
def test_a_job_releases_rows_once_to_table_and_folder_without_a_password(job: SqlJob) -> None:
    for number in range(3):
        job.put(number)
    job.write(create=True)
    seen: list[str] = []
    over = threading.Event()

    with job.start() as run:

        def look() -> None:
            while not over.wait(0.2):
                seen.append(run.command_lines())

        watching = threading.Thread(target=look)
        watching.start()
        try:
            assert run.wait(300) == ExitCode.FINISHED, run.tail()
        finally:
            over.set()
            watching.join()
    assert job.ids() == list(range(30))
    assert job.file_rows() == 30
    [row] = job.world.run(f"SELECT at, tags, raw, nested, city FROM {job.world.schema}orders WHERE id = 7")
    assert str(row[0]) == "2023-11-14 22:13:20.000007"
    assert (json.loads(row[1]), row[2], json.loads(row[3]), row[4]) == (ODD, b"\x00\\", {"n": 7}, "city 7")
    assert job.world.staged() == []
    assert any(job.events.rglob("*")), "there is an event log to look into"
    assert "airflow_provider_ckpt.spark.main" in "".join(seen)
    assert job.password not in "".join(seen)
    assert job.files_with_password() == []


@pytest.mark.chaos
def test_each_row_is_in_the_table_once_after_repeated_kills(job: SqlJob) -> None:
    job.write(bounded=False, create=True)
    job.put(0)
    for number in range(1, 4):
        with job.start() as run:
            wanted = 10 * number

            def is_there() -> bool:
                assert run.exit_code is None, run.tail()
                return "orders" in job.world.tables() and len(job.ids()) >= wanted  # noqa: B023

            wait_until(is_there, run.tail)
            job.put(number)
            wait_until(lambda: job.world.staging_tables() > 0 or len(job.ids()) > wanted, run.tail)  # noqa: B023
        # each driver was killed with batches in progress
    with job.start(drain_after=20) as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert job.ids() == list(range(40))
    assert job.file_rows() == 40
    assert job.world.staging_tables() == 0
