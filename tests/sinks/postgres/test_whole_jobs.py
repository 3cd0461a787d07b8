"""A job in its own process, with a table and a folder. Each row is in both once, and the password is in no file."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks.database_job import ODD
from tests.sinks.postgres.postgres_job import PostgresJob
from tests.sinks.postgres.world import World
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def job(world: World, tmp_path: Path) -> PostgresJob:
    return PostgresJob(world, tmp_path)


@pytest.mark.slow
def test_a_job_releases_rows_once_to_table_and_folder_without_a_password(job: PostgresJob) -> None:
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
    [row] = job.world.run(f'SELECT at, tags, raw, nested, city FROM "{job.world.schema}".orders WHERE id = 7')
    assert row[0].timestamp() == 1_700_000_000.000007
    assert row[1:] == (ODD, b"\x00\\", {"n": 7}, "city 7")
    assert job.world.staged() == []
    assert any(job.events.rglob("*")), "there is an event log to look into"
    assert "airflow_provider_ckpt.spark.main" in "".join(seen)
    assert job.password not in "".join(seen)
    assert job.files_with_password() == []


@pytest.mark.slow
def test_a_job_with_refused_rows_fails_and_resumes_after_the_correction(
    job: PostgresJob,
) -> None:
    job.put(1)
    job.world.run(
        f'CREATE TABLE "{job.world.schema}".orders '
        "(id int, at timestamptz, tags text[], raw bytea, nested jsonb, city varchar(6))"
    )
    job.write()
    with job.start() as run:
        assert run.wait(300) == ExitCode.TERMINAL, run.tail()
        assert "sink 'table' of job 'orders'" in run.text()
        assert "SQLSTATE 22001" in run.text()
    assert job.ids() == []
    job.world.run(f'ALTER TABLE "{job.world.schema}".orders ALTER city TYPE text')
    with job.start(resume_failed=True) as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert job.ids() == list(range(10, 20))
    assert job.files_with_password() == []


@pytest.mark.slow
def test_a_server_that_is_read_only_for_seconds_does_not_end_the_run(job: PostgresJob) -> None:
    """The options are the default ones. The failover ended the run, or used up restarts of the subtask."""
    job.write(bounded=False, create=True)
    job.put(0)
    with job.start(drain_after=45) as run:
        wait_until(lambda: "is RUNNING" in run.text(), run.tail)
        wait_until(lambda: job.is_made() and job.ids() == [*range(10)], run.tail)
        job.world.run("ALTER ROLE airflow SET default_transaction_read_only = on")
        try:
            job.put(1)
            wait_until(lambda: "sink table: has waited 1 s" in run.text(), run.tail)
        finally:
            with psycopg.connect(
                job.world.url, autocommit=True, options="-c default_transaction_read_only=off"
            ) as connection:
                connection.execute("ALTER ROLE airflow RESET default_transaction_read_only")
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
        assert "sink table: has waited 0 s, could not " in run.text()
        assert "SQLSTATE 25006, ReadOnlySqlTransaction" in run.text()
    assert job.ids() == [*range(20)]
    assert job.file_rows() == 20


@pytest.mark.chaos
def test_each_row_is_in_the_table_once_after_repeated_kills(job: PostgresJob) -> None:
    job.write(bounded=False, create=True)
    job.put(0)
    for number in range(1, 4):
        with job.start() as run:
            wanted = 10 * number

            def is_there() -> bool:
                assert run.exit_code is None, run.tail()
                return bool(job.world.run("SELECT to_regclass(%s)", f'"{job.world.schema}".orders')[0][0]) and (
                    len(job.ids()) >= wanted  # noqa: B023
                )

            wait_until(is_there, run.tail)
            job.put(number)
            wait_until(lambda: job.world.staging_tables() > 0 or len(job.ids()) > wanted, run.tail)  # noqa: B023
        # each driver was killed with batches in progress
    with job.start(drain_after=20) as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert job.ids() == list(range(40))
    assert job.file_rows() == 40
    assert job.world.staging_tables() == 0


@pytest.mark.slow
def test_deleting_a_dead_job_with_its_file_deletes_its_staged_rows(
    job: PostgresJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write(bounded=False, create=True)
    job.put(0)
    with job.start(checkpoint_interval=3600) as run:
        wait_until(lambda: bool(_staged(job)), run.tail)
    assert _staged(job)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", job.world.url)
    client = JobClient(str(job.folder / "root"), "orders")
    loaded = load_job(f"{job.folder / 'job.py'}:job")
    deleted = client.delete(loaded, abandoned=True)
    assert (deleted.staged["table"], deleted.left) == (1, ())
    assert job.world.staging_tables() == 0
    assert JobClient(str(job.folder / "root"), "orders").state().status is JobStatus.DELETED


def _staged(job: PostgresJob) -> list[str]:
    [[is_there]] = job.world.run("SELECT to_regclass(%s) IS NOT NULL", f'"{job.world.staging}".staged')
    return job.world.staged() if is_there else []
