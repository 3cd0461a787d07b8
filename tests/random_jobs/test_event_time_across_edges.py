"""Regressions found by the generator: cutting a job into queries must not change its output.

``apart``: the second operator runs in a query of its own and reads the first one's result partition.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef
from tests.random_jobs.generate import DELAY
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import RunPlan, Schedule

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]

UNDISTURBED = Schedule((RunPlan("finish", drains=True),), feeding=1.0, deletes=False)


def behind_a_union(kind: str, apart: bool) -> Definition:
    """Return a job with a live feed 500 seconds ahead of a history that is read file by file."""
    return Definition(
        seed=7,
        sources=(
            SourceDef("history0", bounded=True, watermark=DELAY, files=5, max_files=1),
            SourceDef("live1", bounded=False, watermark=DELAY, files=2, first=500, max_files=1),
        ),
        transforms=(
            TransformDef("t0", "union", ("history0", "live1"), chain=not apart),
            TransformDef("t1", kind, ("t0",)),
        ),
        sinks=(SinkDef("out0", "t1", "rows"),),
        at_start=2,
    )


def behind_a_join(kind: str, apart: bool) -> Definition:
    """Return a job with a join. Unmatched rows leave an outer join when the watermark has passed them."""
    return Definition(
        seed=7,
        sources=tuple(
            SourceDef(uid, bounded=False, watermark=DELAY, files=5, max_files=1) for uid in ("live0", "live1")
        ),
        transforms=(
            TransformDef("t0", kind, ("live0",), ("live1",)),
            TransformDef("t1", "dedup_in_time", ("t0",), chain=not apart),
        ),
        sinks=(SinkDef("out0", "t1", "rows"),),
        at_start=5,
    )


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(behind_a_union("windows", apart=False), id="union, windows"),
        pytest.param(behind_a_union("windows", apart=True), id="union, windows apart"),
        pytest.param(behind_a_union("dedup_in_time", apart=True), id="union, duplicates apart"),
        pytest.param(behind_a_join("left_join", apart=False), id="outer join, duplicates"),
        pytest.param(behind_a_join("left_join", apart=True), id="outer join, duplicates apart"),
        pytest.param(behind_a_join("join", apart=True), id="inner join, duplicates apart"),
    ],
)
def test_a_separate_query_gives_the_same_rows(job: Definition, spark: SparkSession, tmp_path: Path) -> None:
    """Run without faults (R13). The job is refused by name if event time cannot be carried across the edge."""
    InProcess(spark, job, UNDISTURBED, tmp_path).run()
