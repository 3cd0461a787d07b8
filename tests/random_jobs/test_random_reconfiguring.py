"""Random jobs whose queries are changed while they run: limits, state partitions, functions, weights, triggers.

``CKPT_RANDOM_RECONFIGURING`` jobs are tried (default 2) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, draws_of, record
from tests.random_jobs.generate import definition
from tests.random_jobs.reconfiguring import ReconfiguringJob
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_RECONFIGURING", 2))
def test_reconfiguring_a_job_does_not_change_its_output(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    drawn, schedule = replace(definition(seed), mode="streaming"), random_schedule(seed)
    record(record_property, *draws_of(drawn))
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_RECONFIGURING=1\n{drawn}\n  {schedule}"):
        job = ReconfiguringJob(spark, drawn, schedule, tmp_path)
        job.run()
        print(f"  seed {seed}: {len(job.asked)} changes asked for ({job.summary()}), {job.failures.count} failures")
