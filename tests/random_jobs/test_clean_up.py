"""Storages that vanish during the clean-up of a finished job. The job stays finished, and the next start cleans up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.testing.crash import Verbs, When
from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef
from tests.random_jobs.in_process import InProcess
from tests.random_jobs.schedule import RunPlan, Schedule
from tests.spark.faults import Fault

pytestmark = [pytest.mark.random_jobs, pytest.mark.spark, pytest.mark.timeout(900)]

JOB = Definition(
    seed=1,
    sources=(SourceDef("history", bounded=True),),
    transforms=(TransformDef("t", "map", ("history",), chain=False),),
    sinks=(SinkDef("out", "t", "rows"),),
)


class Trees(Verbs):
    """A count of verbs whose ``fault`` begins with the ``number``-th tree deletion at the end of a job."""

    def __init__(self, fault: Fault, number: int) -> None:
        super().__init__()
        self.fault, self.number, self.trees = fault, number, 0

    def next(self, verb: str, path: str) -> int:
        count = super().next(verb, path)
        self.trees += verb == "delete_tree" and path.endswith(("/partition", "/spark", "/prepared", "/scratch"))
        if self.fault.at is None and self.trees == self.number:
            self.fault.at = count
        return count


class CleanUpFails(InProcess):
    tree = 1

    def _fault(self, plan: RunPlan) -> Fault:
        fault = super()._fault(plan)
        if plan.end == "fault":
            fault.at, fault.verbs = None, Trees(fault, self.tree)
        return fault


@pytest.mark.parametrize(("tree", "when", "once"), [(1, "before", False), (2, "after", False), (6, "before", True)])
def test_the_next_start_completes_a_failed_clean_up(
    tree: int, when: When, once: bool, spark: SparkSession, tmp_path: Path
) -> None:
    job = CleanUpFails(spark, JOB, Schedule((RunPlan("fault", when=when, once=once),), 1.0, deletes=False), tmp_path)
    job.tree = tree
    story = job.run()
    assert any(line.startswith("started again") for line in story.notes), story
