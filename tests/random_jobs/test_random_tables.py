"""Random jobs that release to tables with triggers, which others change between stage and release.

Each row is in the table once, or the job stops and names the trigger or the column; mended, it continues with the right
rows. ``CKPT_RANDOM_TABLES`` jobs run (default 4) from seed ``CKPT_RANDOM_SEED`` (default 1) on: on
SQLite, PostgreSQL, MariaDB and Iceberg.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, record
from tests.random_jobs.seeds import describing_failure, seeds
from tests.random_jobs.table_cases import TableCase, table_case
from tests.random_jobs.table_jobs import TableJob
from tests.random_jobs.table_servers import MariaDBTarget, PostgresTarget
from tests.random_jobs.table_targets import IcebergTarget, SQLiteTarget, Target

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


def target_of(case: TableCase, base: Path, request: pytest.FixtureRequest) -> Target:
    """Start the server of the case, if it has one."""
    match case.kind:
        case "iceberg":
            return IcebergTarget(case, base)
        case "postgres":
            return PostgresTarget(case, request.getfixturevalue("postgres_server"))
        case "mariadb":
            return MariaDBTarget(case, request.getfixturevalue("mariadb_server"))
    return SQLiteTarget(case, base)


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_TABLES", 4))
def test_a_table_with_foreign_changes_contains_each_row_once(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty, request: pytest.FixtureRequest
) -> None:
    """Check R5, R9, R10."""
    case = table_case(seed)
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_TABLES=1\n{case}"):
        job = TableJob(case, target_of(case, tmp_path, request), tmp_path)
        job.run()
        record(record_property, *case.draws, *job.outcomes)
