"""Random jobs with stateful consumers of results and unlike event times: right under random faults, or refused.

``CKPT_RANDOM_PLANS`` jobs run (default 3) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, record
from tests.random_jobs.plan_cases import PlanJob, plan_case
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_PLANS", 3))
def test_a_plan_gives_the_rows_of_a_plain_batch_or_is_refused(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    """Check R1, R5, R13, R24."""
    kind, drawn = plan_case(seed)
    schedule = random_schedule(seed)
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_PLANS=1\n{kind}\n{drawn}\n  {schedule}"):
        story = PlanJob(spark, drawn, schedule, tmp_path).run()
        record(record_property, kind, *([f"{kind} refused: {story.refused}"] if story.refused else []))
