"""Random jobs that are upgraded to other versions while they run, and whose queries are changed.

``CKPT_RANDOM_UPGRADES`` jobs are tried (default 2) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.generate import definition
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.seeds import describing_failure, seeds
from tests.random_jobs.upgrading import Upgrading

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_UPGRADES", 2))
def test_r21_upgrading_a_job_does_not_change_its_output(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    drawn, schedule = replace(definition(seed), mode="streaming"), random_schedule(seed)
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_UPGRADES=1\n{drawn}\n  {schedule}"):
        job = Upgrading(spark, drawn, schedule, tmp_path)
        job.run()
        print(f"  seed {seed}: {len(job.asked)} changes asked for ({job.summary()}), {job.failures.count} failures")
