"""The choice of the subtasks to deploy (Flink: SchedulingStrategy). It has no threads and no clock."""

from __future__ import annotations

import math

from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus, SubtaskTable
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.graph import JobEdge, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId


class Scheduler:
    """The order in which subtasks are deployed.

    STREAMING: all subtasks are deployed at once, because no checkpoint is taken before all of them run (R15).

    BATCH: a subtask is deployed when its producer subtasks are at their end of data (R23) and a slot is free.
    Subtasks upstream come first. There are ``slots`` slots, or more if a source with splits has more subtasks. A
    subtask with a valid result of an earlier epoch is deployed, too. It reports at once the end of data in its log.
    """

    def __init__(self, graph: RunningGraph, subtasks: SubtaskTable, *, batch: bool, slots: int = 1) -> None:
        """Create a scheduler for the subtasks in status CREATED.

        Raises ValueError for fewer than one slot, because nothing could run.
        """
        if slots < 1:
            raise ValueError(f"slots must be 1 or more, not {slots}")
        self._graph, self._subtasks = graph, subtasks
        self._slots = slots
        self._batch = batch
        self._inputs: dict[str, list[JobEdge]] = {vertex.uid: [] for vertex in graph.now.vertices}
        for edge in graph.now.edges:
            self._inputs[edge.consumer].append(edge)
        self._waiting = {
            vertex.uid: [subtask for subtask in vertex.subtasks if subtasks.status(subtask) is SubtaskStatus.CREATED]
            for vertex in graph.now.vertices
        }

    def due(self) -> list[SubtaskId]:
        """Return the subtasks to deploy now, in topological order. The caller must change their status."""
        free = self._all_slots() - self._subtasks.count(SubtaskStatus.STARTING, SubtaskStatus.RUNNING)
        chosen: list[SubtaskId] = []
        for vertex in self._graph.now.vertices:
            if len(chosen) >= free:
                break
            chosen += self._ready(vertex, free - len(chosen))
        return chosen

    def _all_slots(self) -> float:
        widths = [vertex.parallelism for vertex in self._graph.now.vertices if vertex.splits]
        return max(self._slots, *widths, 0) if self._batch else math.inf

    def requeue(self, subtask: SubtaskId) -> None:
        """Queue the subtask for deployment again, by number within its vertex. The status must be CREATED."""
        waiting = self._waiting[subtask.vertex]
        if subtask not in waiting:
            waiting.append(subtask)
            waiting.sort(key=lambda queued: queued.number)

    def _ready(self, vertex: JobVertex, free: float) -> list[SubtaskId]:
        waiting = self._waiting[vertex.uid] = [
            subtask for subtask in self._waiting[vertex.uid] if self._subtasks.status(subtask) is SubtaskStatus.CREATED
        ]
        if not waiting or not all(self._may_be_read(edge) for edge in self._inputs[vertex.uid]):
            return []
        ready = [subtask for subtask in waiting if self._is_complete(vertex, subtask)]
        return ready if free >= len(ready) else ready[: int(free)]

    def _may_be_read(self, edge: JobEdge) -> bool:
        """Return False for an all-to-all edge in BATCH mode whose producer has not ended, else True."""
        if not self._batch or edge.exchange == "pointwise":
            return True
        return self._subtasks.vertex_has_ended(edge.producer)

    def _is_complete(self, vertex: JobVertex, subtask: SubtaskId) -> bool:
        if not self._batch or not any(edge.exchange == "pointwise" for edge in self._inputs[vertex.uid]):
            return True
        return all(self._subtasks.has_ended(channel.producer) for channel in channels(self._graph.now, subtask))
