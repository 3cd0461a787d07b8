"""Changes of a definition between two runs.

The job continues with the right rows, or is refused by name before anything is written. Rows are never lost or
repeated. ``CKPT_RANDOM_CHANGES`` changes are tried (default 6) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.changed import ChangedJob
from tests.random_jobs.changes import change
from tests.random_jobs.drawn import RecordProperty, record
from tests.random_jobs.features import in_time
from tests.random_jobs.generate import definition
from tests.random_jobs.schedule import RunPlan
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_CHANGES", 6))
def test_a_changed_job_resumes_with_the_right_rows_or_is_refused(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    before = in_time(definition(seed))  # a change of the delay changes which rows are late
    name, after = change(seed, before)
    record(record_property, f"changed {name}")
    rng = random.Random(seed)
    first = RunPlan("stop", rng.randint(2, 8)) if rng.random() < 0.4 else RunPlan("fault", rng.randint(25, 110))
    with describing_failure(
        f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_CHANGES=1\nchanged: {name}; {first}\n{before}\nto {after}"
    ):
        ChangedJob(spark, before, after, first, tmp_path).run()
