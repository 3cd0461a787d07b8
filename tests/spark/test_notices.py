"""Notices for the user at the beginning of a run. No Spark runs here."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.journal.events import PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan
from airflow_provider_ckpt.spark.preparation.notices import (
    finds_table_empty,
    resumes_with_edited_code,
    suggests_fewer_partitions,
    unused_assignments,
)


def test_an_assigned_function_is_reported_only_if_it_is_unused() -> None:
    given = VertexSettings(pool_weight=2, logic={"a": "v2.py:job", "b": "v2.py:job"})
    read = VertexSettings(pool_weight=2, logic={"a": "v2.py:job"}, digests={"a": "of now"})
    assert [*unused_assignments({"v": given}, {"v": read})] == [
        "b was given v2.py:job while it was in v; it has left that query, and runs without it"
    ]
    assert [*unused_assignments({"v": read}, {"v": read})] == []


def test_an_unavailable_sink_does_not_fail_the_check_for_empty_tables() -> None:
    def fails() -> str:
        raise SinkUnavailableError(message="a lock")

    sinks: Any = {
        "a": SimpleNamespace(loss_evidence=fails),
        "b": SimpleNamespace(loss_evidence=lambda: "table b is empty"),
    }
    [notice] = finds_table_empty(sinks)
    assert notice.startswith("sink b: table b is empty. This is right if a reader deletes what it has read. If ")


def test_an_edited_function_of_a_stateful_query_is_reported_at_the_start() -> None:
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


FEWER = (
    "the state of counts has 200 partitions, Spark's default, and this local master has 2 cores: each partition is a "
    "task in every micro-batch. A small job is faster with --conf spark.sql.shuffle.partitions=4 from its first run "
    "on, because state keeps its number"
)


@pytest.mark.parametrize(
    ("master", "cores", "number", "conf", "knows", "notices"),
    [
        ("local[2]", 2, 200, {}, False, [FEWER]),
        ("local[2]", 2, 200, {"spark.sql.shuffle.partitions": "200"}, False, []),
        ("local[2]", 2, 200, {}, True, []),
        ("local[2]", 2, None, {}, False, []),
        ("local[*]", 32, 200, {}, False, []),
        ("yarn", 2, 200, {}, False, []),
    ],
    ids=["suggested", "chosen", "the state is there", "no state", "many cores", "a cluster"],
)
def test_fewer_partitions_are_suggested_for_new_state_of_a_small_local_job(
    master: str, cores: int, number: int | None, conf: dict[str, str], knows: bool, notices: list[str]
) -> None:
    query = VertexDefinition("append", stateful=True, shuffle_partitions=number)
    definition, graph = JobDefinition("streaming", {}, {"counts": query}, {}), JobGraph((), ())
    before = JobState("orders")
    if knows:
        before.plan = PlanRecorded(graph, {}, 1.0, definition)
    context = SimpleNamespace(
        master=master, defaultParallelism=cores, getConf=lambda: SimpleNamespace(contains=lambda key: False)
    )
    spark: Any = SimpleNamespace(sparkContext=context)
    plan = JobPlan(graph, "streaming", {}, {}, definition)
    assert [*suggests_fewer_partitions(plan, spark, conf, before)] == notices
