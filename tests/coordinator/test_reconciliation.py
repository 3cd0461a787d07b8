"""Minimal correct set of subtasks that a bounded job runs again (FLIP-383), checked on small jobs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import pytest

from airflow_provider_ckpt.jobmaster.recovery.reconciliation import LostResult, lost_results
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId

ALL: Exchange = "all_to_all"


def vertex(uid: str, parallelism: int = 1, *, splits: bool = False, persist: bool = False) -> JobVertex:
    return JobVertex(uid, (uid,), (), (), (), bounded=True, parallelism=parallelism, splits=splits, persist=persist)


def edges(*pairs: str, exchange: Exchange = ALL) -> tuple[JobEdge, ...]:
    return tuple(JobEdge(f"{a}__{b}", a, b, b, exchange) for a, b in (pair.split(">") for pair in pairs))


GRAPHS = {
    "chain": JobGraph((vertex("a"), vertex("b"), vertex("c")), edges("a>b", "b>c")),
    "diamond": JobGraph((vertex("a"), vertex("b"), vertex("c"), vertex("d")), edges("a>b", "a>c", "b>d", "c>d")),
    "splits": JobGraph((vertex("a", 3, splits=True), vertex("b"), vertex("c")), edges("a>b", "b>c", "a>c")),
    "pointwise": JobGraph(
        (vertex("a", 2), vertex("b", 2), vertex("c")), (*edges("a>b", exchange="pointwise"), *edges("b>c"))
    ),
    "apart": JobGraph((vertex("a"), vertex("b"), vertex("c"), vertex("d")), edges("a>c", "b>d")),
    "kept": JobGraph(
        (vertex("a", 2, splits=True, persist=True), vertex("b"), vertex("c", persist=True)), edges("a>b", "b>c")
    ),
    "two ways": JobGraph((vertex("a"), vertex("b")), (*edges("a>b"), JobEdge("again", "a", "b", "b", ALL))),
}


def subsets(of: Collection[SubtaskId]) -> Iterator[set[SubtaskId]]:
    for count in range(len(of) + 1):
        for subset in itertools.combinations(of, count):
            yield set(subset)


def is_correct(graph: JobGraph, ended: set[SubtaskId], lost: set[SubtaskId], again: set[SubtaskId]) -> bool:
    """Return True if every input of a running subtask, and every persistent result, exists or is produced again."""
    run = (set(graph.subtasks) - ended) | again
    if any(subtask in lost - run for vertex in graph.vertices if vertex.persist for subtask in vertex.subtasks):
        return False
    return all(
        channel.producer not in lost or channel.producer in run
        for consumer in run
        for channel in channels(graph, consumer)
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_the_smallest_correct_set_of_subtasks_runs_again(name: str) -> None:
    """The test covers every subset of ended subtasks with every subset of lost results."""
    graph = GRAPHS[name]
    for ended, lost in itertools.product(subsets(graph.subtasks), subsets(graph.subtasks)):
        gone = {subtask: [3] if subtask in lost else [] for subtask in graph.subtasks}
        results = lost_results(graph, ended, gone.__getitem__)
        again = {result.producer for result in results} & ended
        assert is_correct(graph, ended, lost, again)
        smaller = [
            subset for subset in subsets(ended) if len(subset) < len(again) and is_correct(graph, ended, lost, subset)
        ]
        assert not smaller, (ended, lost, again, smaller)
        assert all(result.producer in lost for result in results)


@pytest.mark.parametrize("name", GRAPHS)
def test_each_result_is_checked_once_and_only_if_it_is_needed(name: str) -> None:
    graph = GRAPHS[name]
    for ended in subsets(graph.subtasks):
        asked: list[SubtaskId] = []

        def gone(subtask: SubtaskId) -> list[int]:
            asked.append(subtask)  # noqa: B023 - called before the next round
            return []

        lost_results(graph, ended, gone)
        run = set(graph.subtasks) - ended
        read = {channel.producer for consumer in run for channel in channels(graph, consumer)}
        kept = {subtask for each in graph.vertices if each.persist for subtask in each.subtasks}
        by_split = {subtask for each in graph.vertices if each.splits for subtask in each.subtasks}
        assert sorted(asked) == sorted((read | kept) & (ended | by_split))


def test_lost_splits_of_a_running_source_subtask_are_read_again() -> None:
    graph, a = GRAPHS["splits"], SubtaskId("a/1")
    results = lost_results(graph, {SubtaskId("a/0")}, lambda subtask: [7, 4] if subtask == a else [])
    assert results == (LostResult(a, (4, 7), SubtaskId("b/0")),)


def test_a_lost_persistent_result_is_produced_again() -> None:
    ended = set(GRAPHS["kept"].subtasks)
    assert lost_results(GRAPHS["kept"], ended, lambda subtask: [2] if subtask == "c/0" else []) == (
        LostResult(SubtaskId("c/0"), (2,), SubtaskId("c/0")),
    )


def test_a_lost_result_also_reruns_producers_whose_results_were_released() -> None:
    """b had ended, so a's result was no longer needed. Then b's own result was lost."""
    ended = {SubtaskId("a/0"), SubtaskId("b/0")}
    results = lost_results(GRAPHS["chain"], ended, lambda subtask: [1])
    assert [(result.producer, result.consumer) for result in results] == [("b/0", "c/0"), ("a/0", "b/0")]
