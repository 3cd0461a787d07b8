"""Notices for the user at the beginning of a run. No Spark runs here."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.journal.events import PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.notices import not_as_given, resumes_with_edited_code
from airflow_provider_ckpt.spark.query.job_plan import JobPlan


def test_a_function_that_the_run_goes_without_is_told_and_one_that_was_read_is_not() -> None:
    given = VertexSettings(pool_weight=2, logic={"a": "v2.py:job", "b": "v2.py:job"})
    read = VertexSettings(pool_weight=2, logic={"a": "v2.py:job"}, digests={"a": "of now"})
    assert [*not_as_given({"v": given}, {"v": read})] == [
        "b was given v2.py:job while it was in v; it is not there now, and goes without"
    ]
    assert [*not_as_given({"v": read}, {"v": read})] == []


def test_an_edit_of_a_query_that_keeps_state_is_told_at_the_start() -> None:
    vertex = JobVertex("counts", ("live", "counts"), ("live",), (), ("out",), bounded=False)
    graph, code = JobGraph((vertex,), ()), JobCode("rest", {"live": "1", "counts": "1"}, {})
    definition = JobDefinition("streaming", {}, {"counts": VertexDefinition("update", stateful=True)}, {})
    plan = JobPlan(graph, "streaming", {}, {}, definition)
    before = JobState("orders", last_completed=3)
    before.plan = PlanRecorded(graph, {}, 1.0, definition, code=code)
    (message,) = resumes_with_edited_code(before, plan, replace(code, functions={"live": "1", "counts": "2"}))
    assert message.startswith("counts resumes with the state that it kept")
    assert "(the function of 'counts')" in message
    assert not [*resumes_with_edited_code(before, plan, code)]
    before.end_of_data.add(SubtaskId("counts/0"))
    assert not [*resumes_with_edited_code(before, plan, replace(code, rest="other"))]
