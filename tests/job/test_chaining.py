"""Chaining of operators into vertices: ARCHITECTURE §6, rule by rule."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.chaining import bounded_chain, build_graph
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.json_form import from_json, to_json
from tests.job.jobs import Nowhere, Sketch, backfill, pass_on, shapes

GOLDEN = Path(__file__).parents[1] / "golden" / "execution-graph-v1.json"


def edges(graph: JobGraph) -> list[tuple[str, str, str, str]]:
    return [(e.uid, e.producer, e.consumer, e.operator) for e in graph.edges]


@pytest.mark.parametrize("bounded", [True, False])
def test_a_linear_job_of_one_boundedness_is_one_query_without_an_exchange(bounded: bool) -> None:
    sketch = Sketch()
    a = sketch.source("a", bounded=bounded)
    b = sketch.source("b", bounded=bounded)
    both = sketch.transform("both", a, b)
    sketch.sink("out", sketch.transform("daily", both))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"daily": ("a", "b", "both", "daily")}
    assert graph.edges == ()
    (vertex,) = graph.vertices
    assert (vertex.bounded, vertex.sources, vertex.sinks) == (bounded, ("a", "b"), ("out",))
    assert vertex.bounded_sources == (("a", "b") if bounded else ())


def test_a_source_may_feed_a_sink_directly() -> None:
    sketch = Sketch()
    sketch.sink("out", sketch.source("a"))
    (vertex,) = build_graph(sketch.job).vertices
    assert (vertex.uid, vertex.operators, vertex.sinks) == ("a", ("a",), ("out",))


def test_several_sinks_of_one_operator_are_fed_by_one_vertex() -> None:
    (*_, last) = build_graph(backfill()).vertices
    assert last.sinks == ("warehouse", "lake")


def test_a_bounded_source_next_to_an_unbounded_one_gets_its_own_vertex() -> None:
    graph = build_graph(backfill())
    assert shapes(graph.vertices) == {"history": ("history",), "daily_revenue": ("live", "daily_revenue")}
    assert edges(graph) == [("history__daily_revenue", "history", "daily_revenue", "daily_revenue")]
    assert [vertex.bounded for vertex in graph.vertices] == [True, False]


def test_an_inline_bounded_source_stays_in_the_query_of_its_consumer() -> None:
    (vertex,) = build_graph(backfill(), inline=lambda uid: uid == "history").vertices
    assert vertex.operators == ("history", "live", "daily_revenue")
    assert (vertex.sources, vertex.bounded_sources) == (("history", "live"), ("history",))
    assert not vertex.bounded


def test_inline_is_called_for_bounded_sources_only() -> None:
    asked: list[str] = []
    sketch = Sketch()
    clean = sketch.transform("clean", sketch.source("history", bounded=True))
    sketch.sink("out", sketch.transform("daily", clean, sketch.source("live")))

    def inline(uid: str) -> bool:
        asked.append(uid)
        return True

    build_graph(sketch.job, inline=inline)
    assert asked == ["history"]


def test_a_bounded_chain_stays_inline_as_a_whole() -> None:
    sketch = Sketch()
    clean = sketch.transform("clean", sketch.source("history", bounded=True))
    sketch.sink("out", sketch.transform("daily", clean, sketch.source("live")))
    assert bounded_chain(sketch.job, "history") == ("clean",)
    graph = build_graph(sketch.job, inline=lambda uid: True)
    assert shapes(graph.vertices) == {"daily": ("history", "clean", "live", "daily")}


def test_a_bounded_chain_is_inline_only_if_all_of_its_sources_are() -> None:
    sketch = Sketch()
    old, older = sketch.source("old", bounded=True), sketch.source("older", bounded=True)
    clean = sketch.transform("clean", old, older)
    sketch.sink("out", sketch.transform("daily", clean, sketch.source("live")))
    some = build_graph(sketch.job, inline=lambda uid: uid == "old")
    assert shapes(some.vertices) == {"clean": ("old", "older", "clean"), "daily": ("live", "daily")}
    assert len(build_graph(sketch.job, inline=lambda uid: True).vertices) == 1


def test_a_bounded_vertex_after_an_edge_is_never_inline() -> None:
    sketch = Sketch()
    history = sketch.source("history", bounded=True, chain=False)
    clean = sketch.transform("clean", history)
    sketch.sink("out", sketch.transform("daily", clean, sketch.source("live")))
    graph = build_graph(sketch.job, inline=lambda uid: True)
    assert shapes(graph.vertices) == {
        "history": ("history",),
        "clean": ("clean",),
        "daily": ("live", "daily"),
    }


@pytest.mark.parametrize("reason", ["two consumers", "a sink", "chain=False", "consumer's chain=False"])
def test_a_bounded_source_is_not_inline_for_each_reason(reason: str) -> None:
    sketch = Sketch()
    history = sketch.source("history", bounded=True, chain=reason != "chain=False")
    live = sketch.source("live")
    daily = sketch.transform("daily", history, live, chain=reason != "consumer's chain=False")
    if reason == "two consumers":
        sketch.sink("copy", sketch.transform("other", history))
    if reason == "a sink":
        sketch.sink("copy", history)
    sketch.sink("out", daily)
    graph = build_graph(sketch.job, inline=lambda uid: True)
    assert graph.vertex("history").operators == ("history",)


def test_an_unchained_operator_gets_its_own_vertex() -> None:
    sketch = Sketch()
    parsed = sketch.transform("parsed", sketch.source("live"))
    alone = sketch.transform("alone", parsed, chain=False)
    sketch.sink("out", sketch.transform("daily", alone))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"parsed": ("live", "parsed"), "alone": ("alone",), "daily": ("daily",)}
    assert edges(graph) == [
        ("parsed__alone", "parsed", "alone", "alone"),
        ("alone__daily", "alone", "daily", "daily"),
    ]


def test_an_operator_with_several_consumers_ends_its_vertex() -> None:
    sketch = Sketch()
    live = sketch.source("live")
    sketch.sink("left_out", sketch.transform("left", live))
    sketch.sink("right_out", sketch.transform("right", live))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"live": ("live",), "left": ("left",), "right": ("right",)}
    assert [edge[0] for edge in edges(graph)] == ["live__left", "live__right"]


def test_an_operator_with_a_sink_and_a_consumer_ends_its_vertex() -> None:
    sketch = Sketch()
    parsed = sketch.transform("parsed", sketch.source("live"))
    sketch.sink("raw", parsed)
    sketch.sink("out", sketch.transform("daily", parsed))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"parsed": ("live", "parsed"), "daily": ("daily",)}
    assert (graph.vertex("parsed").sinks, graph.vertex("daily").sinks) == (("raw",), ("out",))


def test_two_edges_between_vertices_enter_different_operators() -> None:
    sketch = Sketch()
    live = sketch.source("live")
    left, right = sketch.transform("left", live), sketch.transform("right", live)
    sketch.sink("out", sketch.transform("both", left, right))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"live": ("live",), "both": ("left", "right", "both")}
    assert edges(graph) == [
        ("live__left", "live", "both", "left"),
        ("live__right", "live", "both", "right"),
    ]


@pytest.mark.parametrize(
    ("upstream", "downstream", "vertices"),
    [("append", "update", 1), ("update", "update", 1), ("update", "append", 1), ("complete", "update", 2)],
)
def test_operators_of_one_query_agree_on_its_output_mode(upstream: Any, downstream: Any, vertices: int) -> None:
    sketch = Sketch()
    counts = sketch.transform("counts", sketch.source("live"), output_mode=upstream)
    sketch.sink("out", sketch.transform("shown", counts, output_mode=downstream))
    assert len(build_graph(sketch.job).vertices) == vertices


def test_inputs_of_different_output_modes_are_not_chained_together() -> None:
    sketch = Sketch()
    a = sketch.transform("a", sketch.source("live"), output_mode="update")
    b = sketch.transform("b", sketch.source("feed"), output_mode="complete")
    sketch.sink("out", sketch.transform("both", a, b))
    graph = build_graph(sketch.job)
    assert shapes(graph.vertices) == {"a": ("live", "a"), "both": ("feed", "b", "both")}


def test_vertices_are_in_topological_order_for_any_order_of_definition() -> None:
    sketch = Sketch()
    sketch.sink("out", "daily")
    sketch.transform("daily", "clean", "live")
    sketch.transform("clean", "history", chain=False)
    sketch.source("live")
    sketch.source("history", bounded=True)
    graph = build_graph(sketch.job)
    assert [vertex.uid for vertex in graph.vertices] == ["history", "clean", "daily"]


def test_added_sources_and_sinks_keep_the_uids_of_vertices() -> None:
    """A vertex keeps its uid, and with it its state, when sources or sinks are added."""
    before = backfill()
    after = backfill()
    after.source(uid="third")(pass_on)
    after.sink("more", "daily_revenue", Nowhere())
    after.sink("third_out", "third", Nowhere())
    assert {v.uid for v in build_graph(before).vertices} < {v.uid for v in build_graph(after).vertices}


def test_parallelism_is_given_by_vertex() -> None:
    graph = build_graph(backfill(), parallelism={"history": 4})
    assert [(v.uid, v.parallelism) for v in graph.vertices] == [("history", 4), ("daily_revenue", 1)]
    with pytest.raises(errors.InvalidJobError, match=r"'live'.*Vertices: history, daily_revenue"):
        build_graph(backfill(), parallelism={"live": 2})


def test_an_invalid_job_has_no_graph() -> None:
    sketch = Sketch()
    sketch.sink("out", "nobody")
    sketch.source("live")
    with pytest.raises(errors.InvalidJobError, match="no operator 'nobody'"):
        build_graph(sketch.job)


def test_r24_the_depth_of_a_sink_is_its_longest_path() -> None:
    sketch = Sketch()
    live = sketch.source("live")
    far = sketch.transform("far", sketch.transform("near", live, chain=False), live)
    sketch.sink("raw", live)
    sketch.sink("out", far)
    sketch.sink("copy", far)
    assert build_graph(sketch.job).sink_depths() == {"raw": 0, "out": 2, "copy": 2}


def test_the_job_has_the_golden_graph() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert (golden["format"], golden["version"]) == ("airflow-provider-ckpt/execution-graph", 1)
    sketch = Sketch("golden")
    history = sketch.source("history", bounded=True, chain=False)
    customers = sketch.source("customers", bounded=True)
    live = sketch.source("live")
    orders = sketch.transform("orders", history, live)
    sketch.sink("raw", orders)
    enriched = sketch.job.transform(inputs={"orders": orders, "customers": customers}, uid="enriched")(
        lambda orders, customers: orders
    )
    sketch.sink("lake", enriched)
    graph = build_graph(sketch.job, inline=lambda uid: uid == "customers", parallelism={"history": 3})
    assert to_json(graph) == golden["graph"]
    assert from_json(JobGraph, golden["graph"]) == graph


def test_a_large_job_is_chained_in_linear_time() -> None:
    """The test counts calls instead of time: ``inline`` is called once per bounded source of a long and wide job."""
    sketch, asked = Sketch(), []
    upstream = sketch.source("live")
    for number in range(2_000):
        history = sketch.source(f"h{number}", bounded=True)
        upstream = sketch.transform(f"t{number}", upstream, history)
    sketch.sink("out", upstream)

    def inline(uid: str) -> bool:
        asked.append(uid)
        return random.Random(uid).random() < 0.5

    graph = build_graph(sketch.job, inline=inline)
    assert len(asked) == len(set(asked)) == 2_000
    assert len(graph.vertices) == 1 + len(graph.edges)


def test_a_persistent_operator_ends_its_vertex() -> None:
    job = Job("kept")

    @job.source(bounded=True)
    def history(read: Any) -> Any: ...

    @job.transform(inputs=[history], persist=True)
    def clean(rows: Any) -> Any: ...

    @job.transform(inputs=[clean])
    def report(rows: Any) -> Any: ...

    job.sink("out", report, Nowhere())
    graph = build_graph(job)
    assert [(vertex.uid, vertex.operators, vertex.persist) for vertex in graph.vertices] == [
        ("clean", ("history", "clean"), True),
        ("report", ("report",), False),
    ]
    assert [graph.publishes(vertex.uid) for vertex in graph.vertices] == [True, False]


def test_a_persistent_operator_needs_no_consumer() -> None:
    job = Job("kept")

    @job.source(bounded=True, persist=True)
    def history(read: Any) -> Any: ...

    graph = build_graph(job)
    assert ([vertex.persist for vertex in graph.vertices], graph.publishes("history")) == ([True], True)
