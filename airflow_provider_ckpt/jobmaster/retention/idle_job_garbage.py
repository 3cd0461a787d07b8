"""Search for leftovers of attempts that are over, in a job that has not FINISHED and is not running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_whole
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage
from airflow_provider_ckpt.jobmaster.retention.orphaned_output import (
    SubtaskFiles,
    abandoned,
    left_by_finished,
    look_at_subtask,
    old_feeds,
    orphans,
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
    """The files of a job that is not running. The constructor reads every subtask.

    Args:
        sinks: Sinks of the job that can be reached.

    Raises SubtaskLogLostError, and the errors of :func:`~.orphaned_output.look_at_subtask`.
    """

    def __init__(self, storage: Storage, state: JobState, sinks: Mapping[str, BoundSink]) -> None:
        self._storage, self._state, self._sinks = storage, state, sinks
        self._graph = state.graph()
        self._is_batch = state.is_batch
        by_split = {vertex.uid for vertex in self._graph.vertices if vertex.splits}
        self._looks = {
            subtask: look_at_subtask(
                storage, state.job_id, subtask, has_folder=not self._is_batch and subtask.vertex not in by_split
            )
            for subtask in (*self._graph.subtasks, *self._others())
        }
        check_whole(state, {subtask: look.reader for subtask, look in self._looks.items()})

    @property
    def left(self) -> tuple[str, ...]:
        """Messages about subtasks whose leftovers must wait for the next driver."""
        return tuple(
            f"{subtask}: its newest attempt had not begun yet, the next run resumes from the previous one"
            for subtask in self._graph.subtasks
            if self._looks[subtask].newest is None
            and len(self._looks[subtask].opened) > 1
            and not self._is_finished(subtask)  # its folders may be gone
        )

    def garbage(self) -> Iterator[Garbage]:
        over, named = set[str](), set[str]()
        for subtask, look in self._looks.items():
            if subtask in self._graph.subtasks:
                finished = {one.path: one for one in self._left_by_finished(look)}
                yield from finished.values()
                yield from (orphan for orphan in orphans(look) if orphan.path not in finished)
                for edge in self._graph.outputs(subtask.vertex):
                    yield from (old_feed for old_feed in self._old_feeds(look, edge) if old_feed.path not in finished)
                over |= {str(one) for one in (look.opened if self._is_finished(subtask) else look.over)}
                named |= look.named_handles
            elif self._is_given_up(look):
                yield from abandoned(look, self._state.epoch)
        yield from staged_orphans(self._sinks, over, named)

    def _left_by_finished(self, look: SubtaskFiles) -> Iterator[Garbage]:
        """Yield files that a finished subtask no longer needs, by the last completed checkpoint (R7).

        A job in batch mode keeps its results until it has FINISHED.
        """
        if self._is_batch or not self._is_finished(look.subtask):
            return
        consumers = [consumer for consumer, _ in readers(self._graph, look.subtask)]
        is_read = all(map(self._is_finished, consumers)) and not self._graph.vertex(look.subtask.vertex).persist
        yield from left_by_finished(look.home, look.files, look.opened, self._state.epoch, is_read=is_read)

    def _is_finished(self, subtask: SubtaskId) -> bool:
        covering = self._state.covering().get(subtask)
        return covering is not None and covering.finished_on_restore

    def _old_feeds(self, look: SubtaskFiles, edge: JobEdge) -> Iterator[Garbage]:
        newest = [self._looks[one].newest for one in self._graph.vertex(edge.consumer).subtasks]
        if self._is_batch or len(newest) != 1 or newest[0] is None:
            return
        subtask = look.subtask
        partition = partition_path(self._state.job_id, subtask.vertex, subtask.number)
        path = f"{partition}/{self._graph.edge_folder(edge)}".removeprefix(f"{look.home}/")
        yield from old_feeds(look, path, (newest[0].epoch, newest[0].number))

    def _others(self) -> Iterator[SubtaskId]:
        """Yield the subtasks that have a folder but are not in the graph."""
        vertices, known = vertices_path(self._state.job_id), set(self._graph.subtasks)
        for vertex in self._storage.list(vertices):
            for number in self._storage.list(f"{vertices}/{vertex}"):
                if number.isdecimal() and str(int(number)) == number and SubtaskId.of(vertex, int(number)) not in known:
                    yield SubtaskId.of(vertex, int(number))

    def _is_given_up(self, look: SubtaskFiles) -> bool:
        """Return whether nothing of the subtask counts by the journal. Only an operator that starts from scratch can
        take its place."""
        uid, epochs = look.subtask.vertex, [one.epoch for one in look.opened]
        if uid not in self._graph.operators and uid in self._state.abandoned:
            return True
        return bool(epochs) and max(epochs) < self._state.since(uid)
