"""The graph changes that a restore allows if operators are finished (Flink: ``VertexFinishedStateChecker``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from airflow_provider_ckpt.coordinator.checkpoints.pending_checkpoint import RUNNING
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot


class VertexFinishedState(Enum):
    ALL_RUNNING = "running"
    PARTIALLY_FINISHED = "partially finished"
    FULLY_FINISHED = "finished"


def operator_state(uid: str, operators: Mapping[str, str]) -> VertexFinishedState:
    """Return the state of an operator in a checkpoint's ``operators``. An operator without an entry is running."""
    return VertexFinishedState(operators.get(uid, RUNNING))


def check_restore(
    graph: JobGraph,
    operators: Mapping[str, str],
    subtasks: Mapping[SubtaskId, Snapshot] = MappingProxyType({}),
    *,
    allow_non_restored_state: bool = False,
) -> None:
    """Check that ``graph`` may resume from a checkpoint of another graph.

    New operators may be added downstream of finished operators, because they get the whole output, but not upstream.
    The parallelism may change. An unchanged graph always passes. IllegalGraphChangeError is raised if one of these
    rules is violated:

    1. All operators that are chained in one vertex have the same state. The bounded sources of a vertex are not
       counted, because an inline source ends and is dropped before its vertex.
    2. Every direct predecessor of a finished vertex is finished.
    3. Every predecessor of a partially finished vertex is finished. If the exchange is pointwise, partially finished
       suffices. If two edges come from one predecessor, the all-to-all edge counts.
    4. An operator with an entry in the checkpoint is still in the graph, unless ``allow_non_restored_state``.

    In rules 2 and 3 a predecessor at its end of data counts as finished, because it produces nothing more. It may still
    wait for the release of its sinks, while a consumer without sinks has finished already.

    Args:
        operators: operator → its state in the checkpoint.
        subtasks: subtask → its snapshot in the checkpoint, with which ended predecessors are found.
        allow_non_restored_state: True to drop the state of operators that are no longer in the graph.
    """
    if not allow_non_restored_state:
        _check_nothing_lost(graph, operators)
    states = {vertex.uid: _vertex_state(vertex, operators) for vertex in graph.vertices}
    produced = states | _ended_vertices(subtasks)
    for edge in _strictest(graph.edges):
        _check_edge(graph, edge, states[edge.consumer], produced[edge.producer])


def _check_nothing_lost(graph: JobGraph, operators: Mapping[str, str]) -> None:
    uids = {uid for vertex in graph.vertices for uid in (*vertex.operators, *vertex.sinks)}
    lost = sorted(set(operators) - uids)
    if lost:
        raise IllegalGraphChangeError(
            "the checkpoint has state of operators that the job no longer has: {operators}; keep their uids, or run "
            "with allow_non_restored_state to drop that state",
            operators=", ".join(lost),
        )


def _vertex_state(vertex: JobVertex, operators: Mapping[str, str]) -> VertexFinishedState:
    inline = set(vertex.bounded_sources)
    chained = [uid for uid in (*vertex.operators, *vertex.sinks) if uid not in inline]
    chained = chained or list(vertex.operators)
    first = chained[0]
    expected = operator_state(first, operators)
    for other in chained[1:]:
        state = operator_state(other, operators)
        if state is not expected:
            raise IllegalGraphChangeError(
                "vertex {vertex} chains {first} ({first_state} in the checkpoint) with {other} ({other_state}): a "
                "chain is restored as one; give one of the two chain=False, or a new uid so that it starts empty",
                vertex=vertex.uid,
                first=first,
                first_state=expected.value,
                other=other,
                other_state=state.value,
            )
    return expected


def _ended_vertices(subtasks: Mapping[SubtaskId, Snapshot]) -> dict[str, VertexFinishedState]:
    ended = {subtask.vertex for subtask, snapshot in subtasks.items() if snapshot.finished}
    unfinished = {subtask.vertex for subtask, snapshot in subtasks.items() if not snapshot.finished}
    state = VertexFinishedState
    return {uid: state.PARTIALLY_FINISHED if uid in unfinished else state.FULLY_FINISHED for uid in ended}


def _strictest(edges: Iterable[JobEdge]) -> Iterable[JobEdge]:
    chosen: dict[tuple[str, str], JobEdge] = {}
    for edge in edges:
        key = (edge.producer, edge.consumer)
        if key not in chosen or edge.exchange == "all_to_all":
            chosen[key] = edge
    return chosen.values()


def _check_edge(graph: JobGraph, edge: JobEdge, consumer: VertexFinishedState, producer: VertexFinishedState) -> None:
    if consumer is VertexFinishedState.ALL_RUNNING or producer is VertexFinishedState.FULLY_FINISHED:
        return
    partial = VertexFinishedState.PARTIALLY_FINISHED
    if consumer is partial and producer is partial and edge.exchange == "pointwise":
        return
    raise IllegalGraphChangeError(
        "operator {consumer} is {consumer_state} in the checkpoint, but {producer}, from which it reads ({exchange}), "
        "is {producer_state}: what {producer} still produces would be lost; add {producer} downstream of finished "
        "operators only, or give {consumer} a new uid so that it runs again",
        consumer=_reading_operator(graph, edge),
        consumer_state=consumer.value,
        producer=edge.producer,
        producer_state=producer.value,
        exchange=edge.exchange.replace("_", "-"),
    )


def _reading_operator(graph: JobGraph, edge: JobEdge) -> str:
    return edge.operator if edge.operator in graph.vertex(edge.consumer).operators else edge.consumer
