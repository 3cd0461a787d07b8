"""The checkpoint plan (FLIP-147): who is triggered, and who must acknowledge.

A pure function of the graph and of who is finished, and linear in subtasks, never in the edges
between them: an all-to-all exchange of 1,000 x 1,000 subtasks is looked at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.model.channel import pointwise_producers
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass(frozen=True)
class CheckpointPlan:
    """In topological order. Of Flink's five lists the two that nobody here asks for are left out: whom to tell of the
    commit is everybody that acknowledged it.

    ``trigger``: unfinished subtasks into which no unfinished direct predecessor sends a barrier (in BATCH
    mode all of them).
    ``wait_for``: all unfinished ones. ``finished``: finished subtasks.
    """

    trigger: tuple[SubtaskId, ...]
    wait_for: tuple[SubtaskId, ...]
    finished: tuple[SubtaskId, ...]


def plan(
    graph: JobGraph,
    finished: Collection[SubtaskId],
    *,
    through_partitions: bool = True,
) -> CheckpointPlan:
    """Plan a checkpoint. ``finished`` names subtasks ("<vertex>/<index>"); pass a set: each subtask is looked up once.

    ``through_partitions``: barriers come to consumers through what they read. False in BATCH mode: a vertex
    that has read its inputs to the end looks at them no more, so that every unfinished subtask is triggered.
    """
    inputs: dict[str, list[JobEdge]] = {vertex.uid: [] for vertex in graph.vertices}
    for edge in graph.edges:
        inputs[edge.consumer].append(edge)
    sends: dict[str, bytearray] = {}
    trigger: list[SubtaskId] = []
    wait_for: list[SubtaskId] = []
    done: list[SubtaskId] = []
    for vertex in graph.vertices:
        names = vertex.subtasks
        sending = bytearray(vertex.parallelism)
        for index, name in enumerate(names):
            if name in finished:
                done.append(name)
            else:
                sending[index] = 1
                wait_for.append(name)
        sends[vertex.uid] = sending
        fed = _fed(vertex.parallelism, inputs[vertex.uid] if through_partitions else (), sends)
        trigger.extend(name for name, here, by in zip(names, sending, fed, strict=True) if here and not by)
    return CheckpointPlan(tuple(trigger), tuple(wait_for), tuple(done))


def _fed(parallelism: int, edges: Collection[JobEdge], sends: dict[str, bytearray]) -> bytearray:
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
