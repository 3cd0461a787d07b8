"""Properties of every job graph, over random jobs (hypothesis prints the job that breaks one)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ckpt.job.chaining import build_graph
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import UID, OutputMode
from airflow_provider_ckpt.job.topology import boundedness, consumers
from airflow_provider_ckpt.job.validation import edge_uid
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.json_form import from_json, to_json
from tests.job.jobs import Sketch

modes: st.SearchStrategy[OutputMode] = st.sampled_from(["append", "append", "update", "complete"])
uids = st.text("ab_AZ09", min_size=1, max_size=6)

EXAMPLES = settings().max_examples


@dataclass(frozen=True)
class Plan:
    """Operator as data. ``inputs`` are the numbers of earlier operators; a source has none."""

    inputs: tuple[int, ...]
    bounded: bool
    chain: bool
    sink: bool
    inline: bool
    mode: OutputMode


@st.composite
def operator_plans(draw: st.DrawFn) -> list[Plan]:
    size = draw(st.integers(1, 9))
    plans: list[Plan] = []
    for number in range(size):
        earlier = st.lists(st.integers(0, number - 1), max_size=3, unique=True) if number else st.just([])
        flags = [draw(st.booleans()) for _ in range(4)]
        inputs = tuple(draw(earlier))
        plans.append(Plan(inputs, flags[0], flags[1] or flags[2], flags[2], flags[3], draw(modes)))
    return plans


def job_of(plans: Sequence[Plan]) -> Job:
    """Return a job. Operators without a consumer get a sink, so that every job is valid."""
    sketch = Sketch()
    read = {i for plan in plans for i in plan.inputs}
    for number, plan in enumerate(plans):
        uid = f"n{number}"
        if plan.inputs:
            inputs = [f"n{i}" for i in plan.inputs]
            sketch.transform(uid, *inputs, chain=plan.chain, output_mode=plan.mode)
        else:
            sketch.source(uid, bounded=plan.bounded, chain=plan.chain)
        if plan.sink or number not in read:
            sketch.sink(f"s{number}", uid)
    return sketch.job


def graph_of(plans: Sequence[Plan]) -> tuple[Job, JobGraph]:
    job = job_of(plans)
    return job, build_graph(job, inline=lambda uid: plans[int(uid[1:])].inline)


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_every_operator_and_sink_is_in_exactly_one_vertex(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    operators = [uid for vertex in graph.vertices for uid in vertex.operators]
    sinks = [uid for vertex in graph.vertices for uid in vertex.sinks]
    assert sorted(operators) == sorted(o.uid for o in (*job.sources, *job.transforms))
    assert sorted(sinks) == sorted(o.uid for o in job.sinks)
    assert [v.sources for v in graph.vertices] == [
        tuple(uid for uid in v.operators if job.operators[uid].kind == "source") for v in graph.vertices
    ]


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_every_input_is_either_inside_a_vertex_or_one_edge(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    vertex_of = {uid: v.uid for v in graph.vertices for uid in v.operators}
    given_inputs = {(uid, o.uid) for o in job.operators.values() if o.kind != "sink" for uid in o.input_uids}
    crossing = {pair for pair in given_inputs if vertex_of[pair[0]] != vertex_of[pair[1]]}
    assert {(edge.producer, edge.operator) for edge in graph.edges} == crossing
    assert len(graph.edges) == len(crossing)
    assert all(vertex_of[edge.operator] == edge.consumer for edge in graph.edges)
    names = [edge.uid for edge in graph.edges]
    assert len({name.casefold() for name in (*names, *job.operators)}) == len(names) + len(job.operators)
    assert all(UID.fullmatch(name) for name in names)


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_vertices_are_in_topological_order(plans: list[Plan]) -> None:
    _, graph = graph_of(plans)
    place = {vertex.uid: number for number, vertex in enumerate(graph.vertices)}
    assert all(place[edge.producer] < place[edge.consumer] for edge in graph.edges)


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_a_vertex_is_a_tree_whose_only_output_is_its_last_operator(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    readers = consumers(job.operators)
    for vertex in graph.vertices:
        *inner, output = vertex.operators
        assert output == vertex.uid
        for uid in inner:
            (reader,) = readers[uid]
            assert vertex.operators.index(reader) > vertex.operators.index(uid)
        assert all(job.operators[sink].input_uids == (output,) for sink in vertex.sinks)


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_a_vertex_is_bounded_by_its_inputs_and_mixes_only_inline(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    bounded = boundedness(job.operators)
    by_uid = {vertex.uid: vertex for vertex in graph.vertices}
    for vertex in graph.vertices:
        upstream = [by_uid[edge.producer].bounded for edge in graph.inputs(vertex.uid)]
        ends = [*upstream, *(job.operators[uid].bounded for uid in vertex.sources)]
        assert vertex.bounded == bounded[vertex.uid] == all(ends)
        assert vertex.bounded_sources == tuple(uid for uid in vertex.sources if bounded[uid])
        if not vertex.bounded:
            assert all(plans[int(uid[1:])].inline for uid in vertex.bounded_sources)


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_an_operator_that_may_not_be_chained_has_its_own_vertex(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    for vertex in graph.vertices:
        if any(not job.operators[uid].chain for uid in vertex.operators):
            assert len(vertex.operators) == 1


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_every_edge_has_a_reason(plans: list[Plan]) -> None:
    """No edge could have been chained: because of chaining, a plain job costs nothing extra."""
    job, graph = graph_of(plans)
    readers, bounded = consumers(job.operators), boundedness(job.operators)
    for edge in graph.edges:
        upstream, consumer = job.operators[edge.producer], job.operators[edge.operator]
        assert (
            len(readers[edge.producer]) > 1
            or not (upstream.chain and consumer.chain)
            or bounded[edge.producer] != bounded[edge.operator]
            or len(modes_of(job, graph, edge.producer) | modes_of(job, graph, edge.consumer)) == 2
        )


def modes_of(job: Job, graph: JobGraph, vertex: str) -> set[OutputMode]:
    return {job.operators[uid].output_mode for uid in graph.vertex(vertex).operators} - {"append"}


@settings(max_examples=3 * EXAMPLES)
@given(operator_plans())
def test_a_vertex_has_one_output_mode(plans: list[Plan]) -> None:
    job, graph = graph_of(plans)
    assert all(len(modes_of(job, graph, vertex.uid)) <= 1 for vertex in graph.vertices)


@settings(max_examples=2 * EXAMPLES)
@given(operator_plans())
def test_a_definition_gives_one_graph_that_survives_json(plans: list[Plan]) -> None:
    first, second = graph_of(plans)[1], graph_of(plans)[1]
    assert first == second
    assert from_json(JobGraph, to_json(first)) == first


@settings(max_examples=5 * EXAMPLES)
@given(uids, uids, uids, uids)
def test_different_pairs_of_operators_have_different_edge_names(a: str, b: str, c: str, d: str) -> None:
    assert (edge_uid(a, b) == edge_uid(c, d)) == ((a, b) == (c, d))


def test_edge_names_with_underscores_do_not_collide() -> None:
    names = [edge_uid("a", "_b"), edge_uid("a_", "b"), edge_uid("a__b", "c"), edge_uid("a", "b__c")]
    assert len(set(names)) == 4
    assert edge_uid("a_x", "b_y") == "a_x__b_y"
