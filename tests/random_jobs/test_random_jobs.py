"""Random definitions under random faults: every row is released exactly once, or the definition is refused by name.

``CKPT_RANDOM_JOBS`` jobs run (default 10) from seed ``CKPT_RANDOM_SEED`` (default 1) on. To repeat one:
``CKPT_RANDOM_SEED=<seed> CKPT_RANDOM_JOBS=1``. With ``CKPT_RANDOM_SHRINK=1`` a failing job is shrunk as long as it
fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, draws_of, record
from tests.random_jobs.features import second_job
from tests.random_jobs.generate import definition
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.second import SecondJob
from tests.random_jobs.seeds import describing_failure, seeds
from tests.random_jobs.shrink import shrink

SHRINKS = os.environ.get("CKPT_RANDOM_SHRINK") == "1"
pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(7200 if SHRINKS else 900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_JOBS", 10))
def test_a_random_job_releases_the_rows_of_a_plain_batch(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    """Check R1, R2, R4, R5, R9, R10, R11, R12, R13, R23, R24."""
    drawn, schedule = definition(seed), random_schedule(seed)
    record(record_property, *draws_of(drawn))
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_JOBS=1\n{drawn}\n  {schedule}"):
        try:
            job = InProcess(spark, drawn, schedule, tmp_path / "job")
            if not job.run().refused and (second := second_job(seed, drawn)) is not None:
                print(f"then {second}")
                SecondJob(job, second, random_schedule(second.seed)).run()
        except Exception:
            if SHRINKS:
                shrink(spark, (drawn, schedule), tmp_path)
            raise
