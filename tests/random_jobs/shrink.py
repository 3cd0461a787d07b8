"""A shrinker for failing jobs: it turns features and runs off as long as the job still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.random_jobs.definition import Definition, simpler
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import Schedule

FailingCase = tuple[Definition, Schedule]


def shrink(spark: SparkSession, failing: FailingCase, base: Path, tries: int = 40) -> FailingCase:
    """Return the smallest job found in so many tries that still raises, perhaps another error."""
    for _ in range(tries):
        smaller = next((variant for variant in _smaller(failing) if _fails(spark, variant, base)), None)
        if smaller is None:
            return failing
        failing = smaller
        print(f"still fails:\n{failing[0]}\n  {failing[1]}")
    return failing


def _smaller(failing: FailingCase) -> Iterator[FailingCase]:
    definition, schedule = failing
    for at in range(len(schedule.runs) - 1):
        yield definition, replace(schedule, runs=(*schedule.runs[:at], *schedule.runs[at + 1 :]))
    for variant in simpler(definition):
        yield variant, schedule


def _fails(spark: SparkSession, candidate: FailingCase, base: Path) -> bool:
    here = base / f"smaller-{sum(1 for _ in base.glob('smaller-*'))}"
    here.mkdir(parents=True)
    try:
        InProcess(spark, *candidate, here).run()
    except Exception as error:  # every failure counts
        print(f"{type(error).__name__}: {str(error)[:200]}")
        return True
    return False
