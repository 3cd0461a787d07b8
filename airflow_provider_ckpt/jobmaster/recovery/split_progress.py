"""Progress of the sources with splits when a driver takes a job over, read from the journal and the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.split import Ranges, Split, numbers
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader, TailingLogReader
from airflow_provider_ckpt.subtasklog.records import Batch


def restored_splits(
    state: JobState,
    graph: JobGraph,
    logs: Mapping[SubtaskId, LogReader],
    lists: Mapping[str, Sequence[Split]],
    parallelism: Mapping[str, int],
) -> dict[str, RestoredSplits]:
    """Return source → the state of its splits (R14), for each source in ``lists``.

    Args:
        logs: Opened logs, so that no earlier attempt publishes after they are read.
        lists: Source → its frozen splits.
        parallelism: Source → number of subtasks that must read it (:func:`readers_wanted`).
    """
    return {uid: _restored(state, graph.vertex(uid), logs, splits, parallelism[uid]) for uid, splits in lists.items()}


def _restored(
    state: JobState, vertex: JobVertex, logs: Mapping[SubtaskId, LogReader], splits: Sequence[Split], parallelism: int
) -> RestoredSplits:
    ids = [split.id for split in splits]
    number_of = {name: number for number, name in enumerate(ids)}
    published: dict[int, tuple[SubtaskId, int]] = {}
    # checked before the entries are read, because attempts may still run (W13): all entries of an ended log are seen
    ended = [subtask for subtask in vertex.subtasks if logs[subtask].has_ended]
    for subtask in vertex.subtasks:
        for position, record in logs[subtask].records():
            for name in record.splits if isinstance(record, Batch) else ():
                if name in number_of:
                    published[number_of[name]] = (subtask, position)
    unfinished = [subtask for subtask in vertex.subtasks if subtask not in ended]
    covered = numbers(covered_splits(state, vertex.uid, state.last_completed))
    return RestoredSplits(ids, unfinished[:parallelism], covered, published, ended=ended)


def readers_wanted(state: JobState, uid: str, declared: int) -> int:
    """Return how many subtasks must read a source with splits.

    The rescaled number counts if a user has rescaled the source while the job ran (R21, :class:`GraphChange`), until
    the job declares another number.
    """
    if state.plan is None or (definition := state.definition) is None or uid not in definition.sources:
        return declared
    is_unchanged = definition.sources[uid].parallelism == declared
    return state.plan.rescaled.get(uid, declared) if is_unchanged else declared


def subtasks_needed(state: JobState, uid: str, parallelism: int) -> int:
    """Return how many subtasks the vertex of a source with splits must have, if the job declares ``parallelism``.

    A job that resumes with another parallelism keeps its ended subtasks, which never run again (R11), and gets the
    missing number of new subtasks. With the same parallelism the vertex keeps its subtasks.
    """
    definition = state.definition
    if definition is None:
        return parallelism
    previous = next((vertex for vertex in state.graph().vertices if vertex.uid == uid), None)
    if previous is None or not previous.splits:
        return parallelism
    declared = definition.sources[uid].parallelism
    ended = [subtask for subtask in previous.subtasks if subtask in state.end_of_data]
    if declared == parallelism or len(ended) == previous.parallelism:
        return previous.parallelism
    return max(previous.parallelism, len(ended) + parallelism)


def unread_splits(
    storage: Storage, job_id: str, state: JobState, logs: Mapping[SubtaskId, TailingLogReader]
) -> dict[str, RestoredSplits]:
    """Return source → state of its splits, for the sources with splits that have not ended.

    Assigned splits stay with their attempts (W13).
    """
    lists: dict[str, tuple[Split, ...]] = {}
    for vertex in state.graph().vertices:
        frozen = state.frozen.get(vertex.uid)
        is_over = state.end_of_data.issuperset(vertex.subtasks)
        if vertex.splits and frozen is not None and frozen.path is not None and not is_over:
            lists[vertex.uid] = read_frozen_splits(storage, f"{job_id}/{frozen.path}")
    assert state.definition is not None
    declared = {uid: state.definition.sources[uid].parallelism for uid in lists}
    readers = {uid: readers_wanted(state, uid, number or 1) for uid, number in declared.items()}
    restored = restored_splits(state, state.graph(), logs, lists, readers)
    return {uid: _with_assigned(splits, state.splits_assigned.get(uid, {})) for uid, splits in restored.items()}


def _with_assigned(splits: RestoredSplits, assigned: Mapping[SubtaskId, Ranges]) -> RestoredSplits:
    return replace(splits, assigned={subtask: sorted(numbers(spans)) for subtask, spans in assigned.items()})
