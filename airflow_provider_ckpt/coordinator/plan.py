"""The checkpoint plan (FLIP-147): who is triggered, who must acknowledge, who is told of the outcome.

A pure function of the graph and of who is finished, and linear in subtasks, never in the edges
between them: an all-to-all exchange of 1,000 x 1,000 subtasks is looked at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.job.graph import Edge, ExecutionGraph


@dataclass(frozen=True)
class CheckpointPlan:
    """Flink's five lists, in topological order, and a sixth.

    ``trigger``: unfinished subtasks into which no unfinished direct predecessor sends a barrier (in BATCH
    mode all of them).
    ``wait_for`` and ``commit_to``: all unfinished ones. ``finished``: finished subtasks.
    ``fully_finished``: vertices without an unfinished subtask. ``never_started``: subtasks that
    published nothing and are acknowledged for at position 0 (R15); in none of the lists before.
    """

    trigger: tuple[str, ...]
    wait_for: tuple[str, ...]
    commit_to: tuple[str, ...]
    finished: tuple[str, ...]
    fully_finished: tuple[str, ...]
    never_started: tuple[str, ...] = ()


def pointwise_producers(consumer: int, producers: int, consumers: int) -> range:
    """The producer subtasks a consumer subtask reads over a pointwise exchange (Flink's mapping:
    fewer producers than consumers: each feeds a run of consumers; more: each consumer reads a run)."""
    if producers < consumers:
        only = consumer * producers // consumers
        return range(only, only + 1)
    return range(consumer * producers // consumers, (consumer + 1) * producers // consumers)


def producers_of(edge: Edge, consumer: int, producers: int, consumers: int) -> range:
    """The subtasks of ``edge.producer`` that subtask ``consumer`` of ``edge.consumer`` reads."""
    if edge.exchange == "all_to_all":
        return range(producers)
    return pointwise_producers(consumer, producers, consumers)


def plan(
    graph: ExecutionGraph,
    finished: Collection[str],
    never_started: Collection[str] = (),
    *,
    through_partitions: bool = True,
) -> CheckpointPlan:
    """Plan a checkpoint. ``finished`` and ``never_started`` name subtasks ("<vertex>/<index>");
    pass sets: each subtask is looked up once.

    ``through_partitions``: barriers come to consumers through what they read. False in BATCH mode: a vertex
    that has read its inputs to the end looks at them no more, so that every unfinished subtask is triggered.
    """
    inputs: dict[str, list[Edge]] = {vertex.uid: [] for vertex in graph.vertices}
    for edge in graph.edges:
        inputs[edge.consumer].append(edge)
    sends: dict[str, bytearray] = {}
    trigger: list[str] = []
    wait_for: list[str] = []
    done: list[str] = []
    absent: list[str] = []
    fully: list[str] = []
    for vertex in graph.vertices:
        names = vertex.subtasks
        sending = bytearray(vertex.parallelism)
        before = len(done)
        for index, name in enumerate(names):
            if name in finished:
                done.append(name)
            elif name in never_started:
                absent.append(name)
            else:
                sending[index] = 1
                wait_for.append(name)
        sends[vertex.uid] = sending
        if len(done) - before == vertex.parallelism:
            fully.append(vertex.uid)
        fed = _fed(vertex.parallelism, inputs[vertex.uid] if through_partitions else (), sends)
        trigger.extend(name for name, here, by in zip(names, sending, fed, strict=True) if here and not by)
    waiting = tuple(wait_for)
    return CheckpointPlan(tuple(trigger), waiting, waiting, tuple(done), tuple(fully), tuple(absent))


def _fed(parallelism: int, edges: Collection[Edge], sends: dict[str, bytearray]) -> bytearray:
    """Per subtask: 1 if a barrier will come to it from some direct predecessor."""
    fed = bytearray(parallelism)
    for edge in edges:
        sending = sends[edge.producer]
        alive = sum(sending)
        if alive == 0:
            continue
        if alive == len(sending) or edge.exchange == "all_to_all":
            return bytearray(b"\x01") * parallelism
        for index in range(parallelism):
            if not fed[index]:
                run = pointwise_producers(index, len(sending), parallelism)
                fed[index] = 1 if sending.find(1, run.start, run.stop) >= 0 else 0
    return fed
