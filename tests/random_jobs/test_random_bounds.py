"""Changed windows, slides, session gaps, time bounds of joins and deduplication intervals.

Each is refused before anything is written, and the job as it was continues with the right rows.
``CKPT_RANDOM_BOUNDS`` changes are tried (default 3) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.bounds import BoundChanged, bound_changes, first_run
from tests.random_jobs.drawn import RecordProperty, record
from tests.random_jobs.seeds import describing_failure, seeds

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_BOUNDS", 3))
def test_a_job_does_not_continue_with_another_bound(
    seed: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    name, uid, before, after = bound_changes(seed)
    first = first_run(seed)
    with describing_failure(
        f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_BOUNDS=1\nchanged: {name} of {uid}; {first}\n{before}\nto {after}"
    ):
        job = BoundChanged(spark, name, uid, before, after, first, tmp_path)
        job.run()
        record(record_property, f"{name} {job.outcome}")
