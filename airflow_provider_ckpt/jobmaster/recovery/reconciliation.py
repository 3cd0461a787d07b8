"""The choice of subtasks that run again when a bounded job resumes, because results are lost (FLIP-383).

In BATCH mode a subtask at its end of data has its result partition in the storage. It runs again if files of the result
are gone and the result is needed. A result is needed in these cases:

* It must outlive the job (persist=True).
* A subtask that is not at its end reads it.
* A subtask that must run again reads it.

Two things differ from Flink:

* The results are in the storage, not in the workers. So the JobMaster need not wait for workers.
* Flink also restarts the consumers of a subtask that runs again, because its rows may differ. Here the input of a
  bounded source is frozen. If a function returns other rows each time, its consumers may read two different results.

:func:`lost_results` decides without storage or clock. :class:`Reconciler` reads the logs and lists the partitions.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.jobmaster.recovery.log_checks import is_outdated, reopened
from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.split import is_in, ranges
from airflow_provider_ckpt.storage.layout import job_path, partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader, TailingLogReader
from airflow_provider_ckpt.subtasklog.lost_entries import lost_entries
from airflow_provider_ckpt.subtasklog.records import Batch


@dataclass(frozen=True)
class LostResult:
    """A result with missing files that must be produced again.

    A source with splits reads the splits of these ``positions`` again. Any other vertex reads everything again.

    Attributes:
        producer: the subtask whose log names files that are gone.
        positions: the positions of the log entries that name these files.
        consumer: the subtask that must read the result; the producer itself if the result must outlive the job.
    """

    producer: SubtaskId
    positions: tuple[int, ...]
    consumer: SubtaskId


def lost_results(
    graph: JobGraph, ended: Collection[SubtaskId], missing_entries: Callable[[SubtaskId], Iterable[int]]
) -> tuple[LostResult, ...]:
    """Return the lost results that must be produced again.

    The search goes from the sinks upwards, because a lost result is needed only if its reader runs.

    Args:
        ended: the subtasks at their end of data.
        missing_entries: returns the positions of a subtask's log entries with missing files. It is called only for a
            subtask whose result is needed, because the call lists files.
    """
    rerun, lost = set(graph.subtasks) - set(ended), list[LostResult]()
    for vertex in reversed(graph.vertices):
        for subtask in vertex.subtasks:
            if not vertex.splits and subtask in rerun:
                continue  # everything that it has published is void (R23)
            outside = subtask if vertex.persist else None
            reader = next((consumer for consumer, _ in readers(graph, subtask) if consumer in rerun), outside)
            positions = () if reader is None else tuple(sorted(missing_entries(subtask)))
            if reader is not None and positions:
                rerun.add(subtask)
                lost.append(LostResult(subtask, positions, reader))
    return tuple(lost)


@dataclass(frozen=True)
class Reconciliation:
    """The subtasks that must run again: subtask → its reset. ``kept`` and ``splits_kept`` are for display only."""

    resets: Mapping[SubtaskId, Reset]
    kept: tuple[SubtaskId, ...] = field(default=(), compare=False)
    splits_kept: Mapping[str, int] = field(default_factory=dict, compare=False)

    def event(self, epoch: int, now: float) -> JobReconciled:
        return JobReconciled(epoch, self.kept, self.splits_kept, tuple(self.resets.values()), now)

    def applied(self, state: JobState) -> JobState:
        """Return ``state`` as it will be after this reconciliation."""
        if not self.resets:
            return state
        after = copy.deepcopy(state)
        self.event(state.epoch, 0.0).apply(after)
        return after


class Reconciler:
    """The reconciler of one job. It caches the logs, because a driver reconciles repeatedly."""

    def __init__(self, storage: Storage, job_id: str) -> None:
        self._storage, self._job_id = storage, job_id
        self._logs: dict[SubtaskId, TailingLogReader] = {}

    def reconcile(self, state: JobState) -> Reconciliation | None:
        """Return which results are kept and which subtasks must run again. Nothing is written.

        None means that there is nothing to resume, or that nothing can or need be produced again:

        * In streaming mode a lost result cannot be produced again, because sinks may have released output made from it.
        * In batch mode a checkpoint covers something only when all subtasks are at their ends. Then no result is
          needed.

        Raises FrozenSplitsLostError, SubtaskLogLostError, and the storage's errors. A partition that cannot be listed
        does not count as lost.
        """
        if not state.is_batch:
            return None
        if not nothing_is_covered(state):  # after a restart from scratch earlier checkpoints remain, and cover nothing
            return None
        with _without_collection():
            return self._reconcile(state)

    def _reconcile(self, state: JobState) -> Reconciliation:
        graph, logs = state.graph(), self._valid_logs(state)
        ended = [name for name in graph.subtasks if name in logs and logs[name].has_ended]

        def missing_entries(subtask: SubtaskId) -> list[int]:
            if subtask not in logs:
                return []
            partition = partition_path(self._job_id, subtask.vertex, subtask.number)
            return lost_entries(self._storage, partition, logs[subtask].records())

        split_numbers = _SplitNumbers(self._storage, self._job_id, state)
        resets = {
            lost.producer: _reset(lost, graph, logs, split_numbers)
            for lost in lost_results(graph, ended, missing_entries)
        }
        resets |= self._resets_without_log(state, {*ended, *resets})
        kept = tuple(name for name in ended if name not in resets)
        return Reconciliation(resets, kept, _splits_kept(graph, logs, resets))

    def _resets_without_log(self, state: JobState, handled: set[SubtaskId]) -> dict[SubtaskId, Reset]:
        """Return resets of subtasks that have ended in the journal but not in their logs, because log entries are gone.

        Raises SubtaskLogLostError if the subtask has finished or has splits, because its read splits are unknown.
        """
        resets = {}
        for subtask in [
            candidate
            for candidate in state.graph().subtasks
            if candidate in state.end_of_data and candidate not in handled
        ]:
            if state.graph().vertex(subtask.vertex).splits or subtask in state.finished:
                path = subtask_log_path(self._job_id, subtask.vertex, subtask.number)
                raise reopened(path, subtask)
            resets[subtask] = Reset(subtask, (), subtask)
        return resets

    def _valid_logs(self, state: JobState) -> dict[SubtaskId, TailingLogReader]:
        valid = {}
        for subtask in state.graph().subtasks:
            if subtask not in self._logs:
                path = subtask_log_path(self._job_id, subtask.vertex, subtask.number)
                self._logs[subtask] = TailingLogReader(self._storage, path)
            if not is_outdated(self._logs[subtask], state.valid_from(subtask.vertex)):
                valid[subtask] = self._logs[subtask]
        return valid


@contextmanager
def _without_collection() -> Iterator[None]:
    """Turn off Python's garbage collection while the logs are read, because it would take a third of the time."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


class _SplitNumbers:
    """The numbers of splits in the frozen lists of their sources, cached."""

    def __init__(self, storage: Storage, job_id: str, state: JobState) -> None:
        self._storage, self._job_id, self._frozen = storage, job_id, state.frozen
        self._numbers: dict[str, dict[str, int]] = {}

    def of(self, source: str) -> Mapping[str, int]:
        if source not in self._numbers:
            frozen = self._frozen.get(source)
            path = None if frozen is None else frozen.path
            splits = () if path is None else read_frozen_splits(self._storage, f"{job_path(self._job_id)}/{path}")
            self._numbers[source] = {split.id: number for number, split in enumerate(splits)}
        return self._numbers[source]


def _reset(
    lost: LostResult, graph: JobGraph, logs: Mapping[SubtaskId, LogReader], split_numbers: _SplitNumbers
) -> Reset:
    subtask, positions = lost.producer, ranges(lost.positions)
    if not graph.vertex(subtask.vertex).splits:
        return Reset(subtask, positions, lost.consumer)
    numbers, missing = split_numbers.of(subtask.vertex), set(lost.positions)
    entries = [record for number, record in logs[subtask].records() if number in missing and isinstance(record, Batch)]
    splits = ranges(numbers[name] for entry in entries for name in entry.splits if name in numbers)
    return Reset(subtask, positions, lost.consumer, splits)


def _splits_kept(
    graph: JobGraph, logs: Mapping[SubtaskId, LogReader], resets: Mapping[SubtaskId, Reset]
) -> dict[str, int]:
    counts: dict[str, int] = {}
    for vertex in [vertex for vertex in graph.vertices if vertex.splits]:
        counts[vertex.uid] = sum(
            len(record.splits)
            for name in vertex.subtasks
            if name in logs
            for position, record in logs[name].records()
            if isinstance(record, Batch) and not (name in resets and is_in(resets[name].positions, position))
        )
    return counts
