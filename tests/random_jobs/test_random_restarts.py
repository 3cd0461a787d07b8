"""Random jobs whose queries fail in a batch, at its entry or at any write, and restart alone.

``CKPT_RANDOM_RESTARTS`` jobs are tried (default 3) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, draws_of, record
from tests.random_jobs.failing_verbs import FailingAnywhere
from tests.random_jobs.generate import definition
from tests.random_jobs.restarting import Restarting
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", [Restarting, FailingAnywhere])
@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_RESTARTS", 3))
def test_failures_of_queries_do_not_change_the_output(
    seed: int,
    kind: type[Restarting] | type[FailingAnywhere],
    spark: SparkSession,
    tmp_path: Path,
    record_property: RecordProperty,
) -> None:
    drawn, schedule = definition(seed), random_schedule(seed)
    record(record_property, *draws_of(drawn))
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_RESTARTS=1 ({kind.__name__})\n{drawn}\n  {schedule}"):
        job = kind(spark, drawn, schedule, tmp_path)
        job.run()
        print(f"  {job.failures.count} failures")
