"""Random jobs with columns of many types: run whole, cut by sinks and consumers, with history left out early or late.

No shape changes a value, and no row is lost or repeated. ``CKPT_RANDOM_VALUES`` jobs run (default 3), in three
shapes each, from seed ``CKPT_RANDOM_SEED`` (default 1).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.drawn import RecordProperty, record
from tests.random_jobs.seeds import describing_failure, seeds
from tests.random_jobs.value_cases import SHAPES, value_case
from tests.random_jobs.value_jobs import ShapedJob

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("number", range(SHAPES))
@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_VALUES", 3))
def test_no_shape_of_a_job_changes_a_value(
    seed: int, number: int, spark: SparkSession, tmp_path: Path, record_property: RecordProperty
) -> None:
    """Check R1, R2, R5, R13. Each shape is compared with the rows that were written, so all shapes agree."""
    case = value_case(seed)
    shape = case.shapes[number]
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_VALUES=1\n{case}\n{shape}"):
        story = ShapedJob(spark, case, shape, tmp_path).run()
        refused = [f"refused: {story.refused}"] if story.refused else []
        record(record_property, *case.draws, *shape.draws, *refused)
