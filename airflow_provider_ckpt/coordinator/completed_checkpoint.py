"""The conversion of an acknowledged checkpoint into the event that completes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from airflow_provider_ckpt.coordinator.pending_checkpoint import NOTHING, PendingCheckpoint
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.checkpoint import OperatorState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId

RUNNING: OperatorState = "running"
PARTIALLY_FINISHED: OperatorState = "partially finished"
FINISHED: OperatorState = "finished"


def completed_event(
    pending: PendingCheckpoint,
    graph: JobGraph,
    before: Mapping[SubtaskId, Snapshot],
    now: float,
    releasing: Iterable[int] = (),
) -> tuple[CheckpointCompleted, dict[SubtaskId, Snapshot]]:
    """Return the event that commits ``pending``, and the snapshots in it.

    Every subtask has a snapshot. A subtask that finished without a barrier gets its last known one, marked ``finished``
    and ``finished_on_restore``. A restore does not start such a subtask, because the end of its log counts and not the
    position.

    Args:
        pending: the checkpoint, acknowledged by all subtasks.
        graph: the graph that runs.
        before: the last known snapshot of each subtask.
        now: current time.
        releasing: the checkpoints whose release is in progress.
    """
    snapshots = dict(pending.acknowledged)
    snapshots.update((name, _finished_snapshot(before.get(name, NOTHING))) for name in pending.finished)
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
        whole = _state(sum(snapshot.finished_on_restore for snapshot in of_vertex), vertex)
        states.update(dict.fromkeys((*vertex.operators, *vertex.sinks), whole))
        if whole != FINISHED:
            for uid in vertex.bounded_sources:
                known = (vertex.uid, uid) in known_ended
                ended = sum(known or uid in s.ended or s.finished_on_restore for s in of_vertex)
                states[uid] = _state(ended, vertex)
    return states


def _state(finished: int, vertex: JobVertex) -> OperatorState:
    if finished == 0:
        return RUNNING
    return FINISHED if finished == vertex.parallelism else PARTIALLY_FINISHED
