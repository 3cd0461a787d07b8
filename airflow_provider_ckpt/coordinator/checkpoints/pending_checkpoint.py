"""A pending checkpoint, the check of its cut, and the event that completes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_plan import CheckpointPlan
from airflow_provider_ckpt.coordinator.errors import CutViolatedError
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.channel import channel_key
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind, OperatorState
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot

End = tuple[SubtaskId, str | None]
"""An end of data as (subtask, None), or the end of one source as (subtask, uid of the source)."""

NOTHING = Snapshot(position=0, batch_id=None)
"""The snapshot of a subtask before its first checkpoint."""


class PendingCheckpoint:
    """The acknowledgements of one checkpoint.

    Every subtask of the plan is in exactly one of ``remaining``, ``acknowledged`` and ``finished``. Remaining subtasks
    must still acknowledge. Finished subtasks have no barrier of this checkpoint.
    """

    def __init__(
        self,
        checkpoint: int,
        kind: CheckpointKind,
        plan: CheckpointPlan,
        *,
        covers: frozenset[End],
        ended: frozenset[tuple[str, str]],
        now: float,
    ) -> None:
        self.checkpoint = checkpoint
        self.kind = kind
        self.triggered_at = now
        self.covers = covers
        """Ends of data and of sources that were reported before the trigger. The barriers follow these ends."""
        self.ended = ended
        """(vertex, uid) of the sources whose end was reported before the trigger."""
        self._acknowledged: dict[SubtaskId, Snapshot] = {}
        self._remaining = dict.fromkeys(plan.wait_for)
        self._finished = dict.fromkeys(plan.finished)
        self._triggered = set(plan.trigger)

    @property
    def acknowledged(self) -> Mapping[SubtaskId, Snapshot]:
        return self._acknowledged

    @property
    def remaining(self) -> tuple[SubtaskId, ...]:
        return tuple(self._remaining)

    @property
    def finished(self) -> tuple[SubtaskId, ...]:
        return tuple(self._finished)

    @property
    def is_complete(self) -> bool:
        return not self._remaining

    def waits_for(self, subtask: SubtaskId) -> bool:
        return subtask in self._remaining

    def was_triggered(self, subtask: SubtaskId) -> bool:
        return subtask in self._triggered

    def acknowledge(self, subtask: SubtaskId, snapshot: Snapshot) -> None:
        del self._remaining[subtask]
        self._acknowledged[subtask] = snapshot

    def finish(self, subtask: SubtaskId) -> None:
        """Record that the subtask closed without a barrier of this checkpoint, so that it counts as finished (R20)."""
        del self._remaining[subtask]
        self._finished[subtask] = None

    def trigger(self, subtask: SubtaskId) -> None:
        self._triggered.add(subtask)


RUNNING: OperatorState = "running"
PARTIALLY_FINISHED: OperatorState = "partially finished"
FINISHED: OperatorState = "finished"


def completed_event(
    pending: PendingCheckpoint,
    graph: JobGraph,
    previous: Mapping[SubtaskId, Snapshot],
    now: float,
    releasing: Iterable[int] = (),
) -> tuple[CheckpointCompleted, dict[SubtaskId, Snapshot]]:
    """Return the event that commits ``pending``, and the snapshots in it.

    Every subtask has a snapshot. A subtask that finished without a barrier gets its previous snapshot, marked
    ``finished`` and ``finished_on_restore``. A restore does not start such a subtask.

    Args:
        pending: the checkpoint, acknowledged by all subtasks but those that finished without a barrier.
        previous: subtask → its snapshot in the previous checkpoint.
        releasing: the checkpoints whose release is in progress.
    """
    snapshots = dict(pending.acknowledged)
    snapshots.update((name, _finished_snapshot(previous.get(name, NOTHING))) for name in pending.finished)
    event = CheckpointCompleted(
        checkpoint=pending.checkpoint,
        triggered_at=pending.triggered_at,
        at=now,
        kind=pending.kind,
        subtasks={name: snapshots[name] for name in sorted(snapshots)},
        operators=_operator_states(graph, snapshots, pending.ended),
        releasing=tuple(sorted(set(releasing))),
    )
    return event, snapshots


def _finished_snapshot(last: Snapshot) -> Snapshot:
    return replace(last, finished=True, finished_on_restore=True)


def _operator_states(
    graph: JobGraph, snapshots: Mapping[SubtaskId, Snapshot], known_ended: Collection[tuple[str, str]]
) -> dict[str, OperatorState]:
    states: dict[str, OperatorState] = {}
    for vertex in graph.vertices:
        of_vertex = [snapshots[name] for name in vertex.subtasks]
        # As in Flink, a subtask at its end of data is not "finished": a restore must still start it.
        vertex_state = _state(sum(snapshot.finished_on_restore for snapshot in of_vertex), vertex)
        states.update(dict.fromkeys((*vertex.operators, *vertex.sinks), vertex_state))
        if vertex_state != FINISHED:
            for uid in vertex.bounded_sources:
                is_known = (vertex.uid, uid) in known_ended
                ended = sum(is_known or uid in snapshot.ended or snapshot.finished_on_restore for snapshot in of_vertex)
                states[uid] = _state(ended, vertex)
    return states


def _state(finished: int, vertex: JobVertex) -> OperatorState:
    if finished == 0:
        return RUNNING
    return FINISHED if finished == vertex.parallelism else PARTIALLY_FINISHED


class CutCheck:
    """The check that no consumer has read beyond the barriers of its producers (R19)."""

    def __init__(self, graph: RunningGraph) -> None:
        self._graph = graph
        self._checked_graph = graph.now
        self._producer = _producers(graph.now)

    def check(self, pending: PendingCheckpoint) -> None:
        """Check on every channel that the consumer has read no further than the producer's barrier.

        A producer without a barrier in this checkpoint has finished, so its consumers are not checked.

        Raises CutViolatedError if a consumer has read too far.
        """
        if self._checked_graph is not self._graph.now:
            self._checked_graph, self._producer = self._graph.now, _producers(self._graph.now)
        for edge, producer, consumer, position in self._reads(pending):
            snapshot = pending.acknowledged.get(producer)
            if snapshot is not None and position > snapshot.position:
                raise CutViolatedError(
                    checkpoint=pending.checkpoint,
                    edge=edge.uid,
                    consumer=consumer,
                    read=position,
                    producer=producer,
                    published=snapshot.position,
                )

    def _reads(self, pending: PendingCheckpoint) -> Iterator[tuple[JobEdge, SubtaskId, SubtaskId, int]]:
        for consumer, snapshot in pending.acknowledged.items():
            for key, position in snapshot.inputs.items():
                entry = self._producer.get(key)
                if entry is not None:
                    yield entry[0], entry[1], consumer, position


def _producers(graph: JobGraph) -> dict[str, tuple[JobEdge, SubtaskId]]:
    """Return channel key → (edge, producing subtask) for all channels."""
    producers: dict[str, tuple[JobEdge, SubtaskId]] = {}
    for edge in graph.edges:
        vertex = graph.vertex(edge.producer)
        for producer in vertex.subtasks:
            producers[channel_key(edge, producer.number, vertex)] = (edge, producer)
    return producers
