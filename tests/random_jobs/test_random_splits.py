"""Random jobs with sources with splits, which are rescaled, fail, are killed and stopped: each row of each split and of
the live feed is released exactly once in every sink, and each split has one entry.

``CKPT_RANDOM_SPLITS`` jobs are run (default 10) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.seeds import seeds, telling
from tests.random_jobs.split_jobs import split_job, split_schedule
from tests.random_jobs.splitting import Splitting

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_SPLITS", 10))
def test_a_job_with_splits_releases_each_row_once(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """R1, R2, R11, R14, R21, R23."""
    drawn = split_job(seed)
    schedule = split_schedule(drawn)
    with telling(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_SPLITS=1\n{drawn}\n{schedule}"):
        job = Splitting(spark, drawn, schedule, tmp_path)
        job.run()
        print(f"  {job.changes()} changes of the graph, {job.failures.count} writes failed")
