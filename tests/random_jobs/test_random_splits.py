"""Random jobs with sources with splits, which are rescaled, fail, are killed and stopped.

Every sink releases each row of the splits and of the live feed exactly once. Each split has one entry.
``CKPT_RANDOM_SPLITS`` jobs run (default 10) from seed ``CKPT_RANDOM_SEED`` (default 1) on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.random_jobs.seeds import describing_failure, seeds
from tests.random_jobs.split_jobs import (
    Rescale,
    SplitJob,
    SplitRun,
    SplitSchedule,
    SplitSink,
    SplitSource,
    split_job,
    split_schedule,
)
from tests.random_jobs.splitting import Splitting

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", seeds("CKPT_RANDOM_SPLITS", 10))
def test_a_job_with_splits_releases_each_row_once(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """Check R1, R2, R11, R14, R21, R23."""
    drawn = split_job(seed)
    schedule = split_schedule(drawn)
    with describing_failure(f"CKPT_RANDOM_SEED={seed} CKPT_RANDOM_SPLITS=1\n{drawn}\n{schedule}"):
        job = Splitting(spark, drawn, schedule, tmp_path)
        job.run()
        print(f"  {job.changes()} changes of the graph, {job.failures.count} writes failed")


def test_a_job_killed_in_a_rescale_after_a_restart_keeps_its_progress(spark: SparkSession, tmp_path: Path) -> None:
    """The new subtasks' logs predate the restart from scratch and were not opened since.

    This looked like an interrupted restore, so that everything was read again. Found by seed 6.
    """
    sources = (SplitSource("parts0", (1,) * 24), SplitSource("parts1", (3,)))
    sinks = tuple(SplitSink(f"raw_{source.uid}", (source.uid,), direct=True) for source in sources)
    many, single = {"parts0": 3, "parts1": 1}, {"parts0": 1, "parts1": 1}
    runs = (
        SplitRun(many, fails=(10,), most=1),
        SplitRun(single, kill="change", rescales=(Rescale("parts0", 3, 8, "no"),)),
        SplitRun(single),
    )
    drawn = SplitJob(1, sources, sinks, files=1, at_start=1, mode="batch", interval=600.0, retained=2)
    job = Splitting(spark, drawn, SplitSchedule(runs, 1.0, anew=True), tmp_path)
    job.run()
    assert (job.changes(), job.restarts_from_scratch()) == (1, 1)
