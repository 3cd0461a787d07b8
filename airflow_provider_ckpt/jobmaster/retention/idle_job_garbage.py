"""Search for leftovers of attempts that are over, in a job that has not FINISHED and is not running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_whole
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage
from airflow_provider_ckpt.jobmaster.retention.orphaned_output import (
    SubtaskFiles,
    abandoned,
    left_by_finished,
    old_feeds,
    orphans,
    read_subtask_files,
    staged_orphans,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobEdge
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.layout import partition_path, vertices_path
from airflow_provider_ckpt.storage.storage import Storage


class IdleJobGarbage:
    """The files of a job that is not running. The constructor reads every subtask. ``sinks`` are the reachable sinks.

    Raises SubtaskLogLostError, and the errors of :func:`~.orphaned_output.read_subtask_files`.
    """

    def __init__(self, storage: Storage, state: JobState, sinks: Mapping[str, BoundSink]) -> None:
        self._storage, self._state, self._sinks = storage, state, sinks
        self._graph = state.graph()
        self._is_batch = state.is_batch
        by_split = {vertex.uid for vertex in self._graph.vertices if vertex.splits}
        self._subtasks = {
            subtask: read_subtask_files(
                storage, state.job_id, subtask, has_folder=not self._is_batch and subtask.vertex not in by_split
            )
            for subtask in (*self._graph.subtasks, *self._removed_subtasks())
        }
        check_whole(state, {subtask: files.reader for subtask, files in self._subtasks.items()})

    @property
    def left(self) -> tuple[str, ...]:
        """Messages about subtasks whose leftovers must wait for the next driver."""
        return tuple(
            f"{subtask}: its newest attempt had not begun yet, the next run resumes from the previous one"
            for subtask in self._graph.subtasks
            if self._subtasks[subtask].newest is None
            and len(self._subtasks[subtask].opened) > 1
            and not self._is_finished(subtask)  # its folders may be gone
        )

    def garbage(self) -> Iterator[Garbage]:
        over, named_handles = set[str](), set[str]()
        for subtask, subtask_files in self._subtasks.items():
            if subtask in self._graph.subtasks:
                finished = {piece.path: piece for piece in self._left_by_finished(subtask_files)}
                yield from finished.values()
                yield from (orphan for orphan in orphans(subtask_files) if orphan.path not in finished)
                for edge in self._graph.outputs(subtask.vertex):
                    yield from (
                        old_feed for old_feed in self._old_feeds(subtask_files, edge) if old_feed.path not in finished
                    )
                over |= {
                    str(attempt)
                    for attempt in (subtask_files.opened if self._is_finished(subtask) else subtask_files.over)
                }
                named_handles |= subtask_files.named_handles
            elif self._is_abandoned(subtask_files):
                yield from abandoned(subtask_files, self._state.epoch)
        yield from staged_orphans(self._sinks, over, named_handles)

    def _left_by_finished(self, subtask_files: SubtaskFiles) -> Iterator[Garbage]:
        """Yield files that a finished subtask no longer needs (R7). In batch mode its result stays."""
        if self._is_batch or not self._is_finished(subtask_files.subtask):
            return
        consumers = [consumer for consumer, _ in readers(self._graph, subtask_files.subtask)]
        is_read = (
            all(map(self._is_finished, consumers)) and not self._graph.vertex(subtask_files.subtask.vertex).persist
        )
        yield from left_by_finished(
            subtask_files.home, subtask_files.files, subtask_files.opened, self._state.epoch, is_read=is_read
        )

    def _is_finished(self, subtask: SubtaskId) -> bool:
        snapshot = self._state.valid_snapshots().get(subtask)
        return snapshot is not None and snapshot.finished_on_restore

    def _old_feeds(self, subtask_files: SubtaskFiles, edge: JobEdge) -> Iterator[Garbage]:
        newest = [self._subtasks[consumer].newest for consumer in self._graph.vertex(edge.consumer).subtasks]
        if self._is_batch or len(newest) != 1 or newest[0] is None:
            return
        subtask = subtask_files.subtask
        partition = partition_path(self._state.job_id, subtask.vertex, subtask.number)
        path = f"{partition}/{self._graph.edge_folder(edge)}".removeprefix(f"{subtask_files.home}/")
        yield from old_feeds(subtask_files, path, (newest[0].epoch, newest[0].number))

    def _removed_subtasks(self) -> Iterator[SubtaskId]:
        vertices, current = vertices_path(self._state.job_id), set(self._graph.subtasks)
        for vertex in self._storage.list(vertices):
            for number in self._storage.list(f"{vertices}/{vertex}"):
                if (
                    number.isdecimal()
                    and str(int(number)) == number
                    and SubtaskId.of(vertex, int(number)) not in current
                ):
                    yield SubtaskId.of(vertex, int(number))

    def _is_abandoned(self, subtask_files: SubtaskFiles) -> bool:
        """Return whether the journal makes all entries of the subtask void."""
        uid, epochs = subtask_files.subtask.vertex, [attempt.epoch for attempt in subtask_files.opened]
        if uid not in self._graph.operators and uid in self._state.abandoned:
            return True
        return bool(epochs) and max(epochs) < self._state.valid_from(uid)
