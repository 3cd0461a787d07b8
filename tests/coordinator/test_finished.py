"""Restores of a changed graph (Flink's VertexFinishedStateCheckerTest, by its case names). Errors name both
operators."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from airflow_provider_ckpt.coordinator.checkpoints.vertex_finished_state import check_restore
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from tests.coordinator.harness import graph, vertex

PARTIAL, DONE, RUNS = "partially finished", "finished", "running"


def _pair(kind: Exchange) -> JobGraph:
    return graph(vertex("a", sources="a"), vertex("b"), edges="a>b", kind=kind)


@pytest.mark.parametrize("other", [PARTIAL, RUNS])
def test_restoring_partially_finished_chains_fails(other: str) -> None:
    chained = graph(vertex("b", sources="a"))
    with pytest.raises(IllegalGraphChangeError, match=r"b.*chains a .*with b "):
        check_restore(chained, {"a": DONE, "b": other})


def test_an_inline_bounded_source_may_be_finished_in_a_running_vertex() -> None:
    check_restore(graph(vertex("v", sources="h live", bounded="h", sinks="s")), {"h": DONE, "v": RUNS})


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("all_to_all", None, DONE),  # testAddingRunningOperatorBeforeFinishedOneFails
        ("pointwise", RUNS, DONE),
        ("all_to_all", PARTIAL, DONE),  # testAddingPartiallyFinishedOperatorBeforeFinishedOneFails
        ("pointwise", PARTIAL, DONE),
        ("all_to_all", RUNS, PARTIAL),  # testAddingAllRunning...BeforePartiallyFinishedOneWithAllToAllFails
        ("all_to_all", PARTIAL, PARTIAL),  # testAddingPartiallyFinished...WithAllToAllFails
        ("pointwise", RUNS, PARTIAL),  # testAddingAllRunningOperatorBeforePartiallyFinishedOneFails
    ],
)
def test_a_running_operator_may_not_precede_a_finished_one(kind: Exchange, before: str | None, after: str) -> None:
    operators = {"b": after} if before is None else {"a": before, "b": after}
    with pytest.raises(IllegalGraphChangeError, match=r"operator b .* but a,"):
        check_restore(_pair(kind), operators)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("all_to_all", DONE, DONE),
        ("all_to_all", DONE, PARTIAL),
        ("pointwise", PARTIAL, PARTIAL),
        ("all_to_all", DONE, RUNS),
        ("all_to_all", PARTIAL, RUNS),
        ("all_to_all", DONE, None),
    ],
)
def test_new_and_running_operators_may_follow_finished_operators(
    kind: Exchange, before: str, after: str | None
) -> None:
    check_restore(_pair(kind), {"a": before} if after is None else {"a": before, "b": after})


@pytest.mark.parametrize(("ended", "passes"), [(2, True), (1, False), (0, False)])
def test_a_vertex_at_end_of_data_counts_as_ended_before_its_release(ended: int, passes: bool) -> None:
    """Found by a kill between the completion of a final checkpoint and its release, after which every restore was
    refused."""
    pair = graph(vertex("a", sources="a", sinks="s"), vertex("b"), edges="a>b", kind="all_to_all")
    subtasks = {SubtaskId(f"a/{number}"): Snapshot(3, 0, finished=number < ended) for number in range(2)}
    with nullcontext() if passes else pytest.raises(IllegalGraphChangeError, match="still produces would be lost"):
        check_restore(pair, {"a": RUNS, "s": RUNS, "b": DONE}, subtasks)


def test_an_all_to_all_edge_outweighs_a_pointwise_edge_of_the_same_pair() -> None:
    pair = _pair("pointwise")
    both = JobGraph(pair.vertices, (*pair.edges, JobEdge("again", "a", "b", "b", "all_to_all")))
    with pytest.raises(IllegalGraphChangeError, match="still produces would be lost"):
        check_restore(both, {"a": PARTIAL, "b": PARTIAL})


@pytest.mark.parametrize("state", [RUNS, DONE])
def test_an_operator_may_be_removed_only_if_that_is_allowed(state: str) -> None:
    operators = {"a": state, "b": state, "gone": state}
    with pytest.raises(IllegalGraphChangeError, match="gone"):
        check_restore(_pair("pointwise"), operators)
    check_restore(_pair("pointwise"), operators, allow_non_restored_state=True)
