"""Jobs that are stopped or crash, and continue after another job has overwritten their folders.

``CKPT_RANDOM_OVERTAKEN`` jobs are tried (default 2) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.generate import definition
from tests.random_jobs.overtaken import Overtaken
from tests.random_jobs.schedule import RunPlan
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_OVERTAKEN", 2))
def test_a_job_does_not_restore_rows_that_another_job_replaced(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(seed * 29 + 1)
    drawn = definition(seed)
    first = RunPlan("stop", rng.randint(2, 8)) if rng.random() < 0.5 else RunPlan("fault", rng.randint(25, 160))
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_OVERTAKEN=1\n{drawn}\n  {first}"):
        Overtaken(spark, drawn, first, tmp_path).run()
