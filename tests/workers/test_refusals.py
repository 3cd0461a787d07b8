"""A worker that was given something else than the planner is refused before Spark starts, where that can be."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.journal.events import PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.spark.errors import OtherPlanError
from airflow_provider_ckpt.spark.worker_run import prepare_again
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage


@pytest.mark.parametrize(("planned", "given"), [({"day": "1"}, {}), ({}, {"day": "1"}), ({"day": "1"}, {"day": "2"})])
def test_a_worker_with_other_parameters_is_refused(planned: dict[str, str], given: dict[str, str]) -> None:
    state = JobState("orders")
    state.deployment = 3
    definition = JobDefinition("streaming", {}, {}, {}, params=planned)
    PlanRecorded(JobGraph((), ()), {}, 1.0, definition).apply(state)
    options = RunOptions(job="job.py:job", root="memory://refusals", job_id="orders", params=given)
    with pytest.raises(OtherPlanError, match="the parameters of job 'orders' are not what it was prepared with"):
        prepare_again(Job("orders"), options, open_storage(options.root), Location(options.root), state)
