"""Random definitions in real drivers that are killed, stopped, paused and taken over at random moments.

``CKPT_RANDOM_PROCESSES`` jobs run (default 2) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.generate import definition
from tests.random_jobs.process_schedule import steps
from tests.random_jobs.processes import Processes
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_PROCESSES", 2))
def test_a_random_job_in_killed_drivers_releases_the_right_rows(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """Check R1 to R13, R22 to R24."""
    drawn, schedule = definition(seed), steps(seed)
    description = f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_PROCESSES=1\n{drawn}\n  " + "; ".join(map(str, schedule))
    with describing_failure(description), Processes(drawn, schedule, tmp_path) as job:
        job.run(spark)
        print(f"  {job.deeds} deeds, {len(job.drivers)} drivers")
