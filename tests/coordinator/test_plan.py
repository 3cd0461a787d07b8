"""Checkpoint plans: Flink's golden cases (DefaultCheckpointPlanCalculatorTest) by their names, and properties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_plan import plan
from airflow_provider_ckpt.model.channel import pointwise_producers
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from tests.coordinator.harness import graph, vertex


def _two_vertices(first: int, second: int, kind: Exchange) -> JobGraph:
    return graph(
        vertex("V0", sources="V0", parallelism=first),
        vertex("V1", sinks="s", parallelism=second),
        edges="V0>V1",
        kind=kind,
    )


def test_compute_all_running_graph() -> None:
    planned = plan(_two_vertices(3, 4, "all_to_all"), set())
    assert planned.trigger == ("V0/0", "V0/1", "V0/2")
    assert len(planned.wait_for) == 7
    assert planned.finished == ()


def test_all_to_all_edge_with_some_sources_finished() -> None:
    planned = plan(_two_vertices(3, 4, "all_to_all"), {SubtaskId("V0/0"), SubtaskId("V0/1")})
    assert planned.trigger == ("V0/2",)
    assert planned.finished == ("V0/0", "V0/1")


def test_one_to_one_edge_with_some_sources_finished() -> None:
    planned = plan(_two_vertices(4, 4, "pointwise"), {SubtaskId("V0/0"), SubtaskId("V0/1")})
    assert planned.trigger == ("V0/2", "V0/3", "V1/0", "V1/1")


def test_one_to_one_edge_with_some_sources_and_targets_finished() -> None:
    planned = plan(_two_vertices(4, 4, "pointwise"), {SubtaskId("V0/0"), SubtaskId("V0/1"), SubtaskId("V1/0")})
    assert planned.trigger == ("V0/2", "V0/3", "V1/1")
    assert planned.wait_for == ("V0/2", "V0/3", "V1/1", "V1/2", "V1/3")


def test_a_vertex_is_triggered_only_when_all_its_inputs_are_finished() -> None:
    """testComputeWithMultipleInputs"""
    joined = graph(vertex("a", sources="a"), vertex("b", sources="b"), vertex("join", sinks="s"), edges="a>join b>join")
    assert plan(joined, {SubtaskId("a/0")}).trigger == (SubtaskId("b/0"),)
    assert plan(joined, {SubtaskId("a/0"), SubtaskId("b/0")}).trigger == (SubtaskId("join/0"),)


def test_compute_with_multiple_levels() -> None:
    levels = graph(
        vertex("a", sources="a", parallelism=2),
        vertex("b", parallelism=2),
        vertex("c", parallelism=2, sinks="s"),
        edges="a>b b>c",
    )
    planned = plan(levels, {SubtaskId("a/0"), SubtaskId("a/1"), SubtaskId("b/0"), SubtaskId("b/1")})
    assert planned.trigger == ("c/0", "c/1")


def test_a_finished_consumer_does_not_affect_its_producer() -> None:
    """The FINISHED reports may arrive out of topological order."""
    levels = graph(vertex("a", sources="a"), vertex("b"), vertex("c", sinks="s"), edges="a>b b>c")
    assert plan(levels, {SubtaskId("a/0"), SubtaskId("c/0")}).trigger == (SubtaskId("b/0"),)


def test_pointwise_producers_are_those_of_flink() -> None:
    assert [list(pointwise_producers(i, 2, 5)) for i in range(5)] == [[0], [0], [0], [1], [1]]
    assert [list(pointwise_producers(i, 5, 2)) for i in range(2)] == [[0, 1], [2, 3, 4]]
    assert [list(pointwise_producers(i, 3, 3)) for i in range(3)] == [[0], [1], [2]]


@given(st.integers(1, 12), st.integers(1, 12))
def test_pointwise_leaves_no_producer_unread(producers: int, consumers: int) -> None:
    read = {p for i in range(consumers) for p in pointwise_producers(i, producers, consumers)}
    assert read == set(range(producers))


@given(st.data())
def test_every_unfinished_subtask_is_reached_by_a_barrier(data: st.DataObject) -> None:
    """Barriers travel from the triggered subtasks over the edges. No subtask that receives a barrier is triggered as
    well."""
    widths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    vertices = tuple(vertex(f"v{n}", parallelism=width) for n, width in enumerate(widths))
    edges = []
    for n in range(1, len(widths)):
        for producer in data.draw(st.sets(st.integers(0, n - 1))):
            kind: Exchange = data.draw(st.sampled_from(("pointwise", "all_to_all")))
            edges.append(JobEdge(f"e{producer}_{n}", f"v{producer}", f"v{n}", f"v{n}", kind))
    whole = JobGraph(vertices, tuple(edges))
    all_subtasks = [SubtaskId.of(f"v{n}", i) for n, width in enumerate(widths) for i in range(width)]
    finished = data.draw(st.sets(st.sampled_from(all_subtasks)))
    planned = plan(whole, finished)
    reached = set(planned.trigger)
    for n, width in enumerate(widths):
        for i in range(width):
            sending = [s for s in _predecessors(whole, n, i, widths) if s not in finished]
            if f"v{n}/{i}" not in finished:
                assert (f"v{n}/{i}" in planned.trigger) == (not sending)
                if any(s in reached for s in sending):
                    reached.add(SubtaskId(f"v{n}/{i}"))
    assert reached == set(planned.wait_for) == set(all_subtasks) - finished


def _predecessors(whole: JobGraph, n: int, index: int, widths: list[int]) -> list[str]:
    predecessors = []
    for edge in whole.inputs(f"v{n}"):
        width = widths[int(edge.producer[1:])]
        run = range(width) if edge.exchange == "all_to_all" else pointwise_producers(index, width, widths[n])
        predecessors += [f"{edge.producer}/{i}" for i in run]
    return predecessors
