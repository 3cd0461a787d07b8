"""A partition value that cannot name a folder.

It ends a job before its batch counts, and the error names it. The job resumes when the rows are corrected.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

pytestmark = pytest.mark.slow

LONG = "x" * 400


def job_of(world: World, shown: str, *, bounded: bool = True) -> Job:
    job = Job("job")

    @job.source(bounded=bounded, max_files_per_trigger=1)
    def rows(read: Any) -> DataFrame:
        return read.schema("id LONG, city STRING").parquet(world.path("in"))  # type: ignore[no-any-return]

    @job.transform(inputs=[rows])
    def shaped(given: DataFrame) -> DataFrame:
        return given.selectExpr("id", f"{shown} AS city")

    job.sink("out", shaped, FileSink(world.path("out"), partition_by=["city"]))
    return job


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_long_value_ends_the_job_which_resumes_with_corrected_rows(
    spark: SparkSession, world: World, mode: str
) -> None:
    for number in range(4):
        cities = ["a", LONG if number == 2 else "b"]
        world.put("in", str(number), [{"id": 2 * number + index, "city": city} for index, city in enumerate(cities)])
    ended = world.run(job_of(world, "city"), mode=mode)
    assert ended.status == "FAILED"
    assert ended.cause is not None
    for part in ("sink 'out' of job 'job'", "a value in 'city'", "has 405 bytes", "--resume-failed"):
        assert part in ended.cause
    assert LONG not in str(ended.lines)
    assert {row["id"] for row in world.released()}.isdisjoint({4, 5})
    again = world.run(job_of(world, "left(city, 20)"), mode=mode, resume_failed=True)
    assert again.status == "FINISHED", again.cause
    assert sorted(row["id"] for row in world.released()) == list(range(8))
