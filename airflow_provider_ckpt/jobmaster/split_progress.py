"""How far the sources with splits are when a driver takes the job over: by the journal, and by the logs' tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_ckpt.coordinator.enumerator import RestoredSplits
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.split import Split, numbers
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch


def restored_splits(
    state: JobState,
    graph: JobGraph,
    logs: Mapping[SubtaskId, LogReader],
    lists: Mapping[str, Sequence[Split]],
    parallelism: Mapping[str, int],
) -> dict[str, RestoredSplits]:
    """What is done (R14), of the sources in ``lists``: their frozen splits. ``logs``: opened, so that nothing is
    published behind what is seen here; ``parallelism``: how many subtasks are to read each (:func:`readers_wanted`)."""
    return {uid: _restored(state, graph.vertex(uid), logs, splits, parallelism[uid]) for uid, splits in lists.items()}


def _restored(
    state: JobState, vertex: JobVertex, logs: Mapping[SubtaskId, LogReader], splits: Sequence[Split], parallelism: int
) -> RestoredSplits:
    ids = [split.id for split in splits]
    places = {name: number for number, name in enumerate(ids)}
    published: dict[int, tuple[SubtaskId, int]] = {}
    # before what is published, as attempts may live on (W13): of one that has ended all of it is seen then
    ended = [subtask for subtask in vertex.subtasks if logs[subtask].has_ended]
    for subtask in vertex.subtasks:
        for position, record in logs[subtask].records():
            for name in record.completes if isinstance(record, Batch) else ():
                if name in places:
                    published[places[name]] = (subtask, position)
    unfinished = [subtask for subtask in vertex.subtasks if subtask not in ended]
    covered = numbers(covered_splits(state, vertex.uid, state.last_completed))
    return RestoredSplits(ids, unfinished[:parallelism], covered, published, ended=ended)


def readers_wanted(state: JobState, uid: str, declared: int) -> int:
    """How many subtasks are to read a source with splits: as many as the job declares, unless somebody has asked for
    another number while it ran (R21, :class:`GraphChanged`). That holds until another one is declared."""
    if state.plan is None or (definition := state.definition) is None or uid not in definition.sources:
        return declared
    is_as_then = definition.sources[uid].parallelism == declared
    return state.plan.rescaled.get(uid, declared) if is_as_then else declared


def subtasks_needed(state: JobState, uid: str, parallelism: int) -> int:
    """How many subtasks the vertex of a source with splits has, if the job declares ``parallelism``.

    What has ended is never begun again (R11), and no log that was written goes away: a job that goes on with another
    parallelism keeps its subtasks, and gets as many new ones as are missing. With the same one it stays as it is.
    """
    definition = state.definition
    if definition is None:
        return parallelism
    before = next((one for one in state.graph().vertices if one.uid == uid), None)
    if before is None or not before.splits:
        return parallelism
    declared = definition.sources[uid].parallelism
    ended = [subtask for subtask in before.subtasks if subtask in state.end_of_data]
    if declared == parallelism or len(ended) == before.parallelism:
        return before.parallelism
    return max(before.parallelism, len(ended) + parallelism)
