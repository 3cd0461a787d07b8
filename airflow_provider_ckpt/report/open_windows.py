"""Windows that hold rows back, and the reasons why a run has released no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.watermark import MAX_WATERMARK
from airflow_provider_ckpt.report.event_time import HeldWindows, shown_time


@dataclass(frozen=True)
class OpenWindows:
    """A query whose newest rows lie in windows that are not closed.

    Attributes:
        vertex: the query.
        watermark: its watermark in epoch milliseconds.
        newest: event time of its newest row in epoch milliseconds.
        unread: inputs whose end the windows wait for.
    """

    vertex: str
    watermark: int | None
    newest: int
    unread: tuple[str, ...]

    def __str__(self) -> str:
        if self.unread:
            return f"windows of {self.vertex} are open until {' and '.join(self.unread)} is read to its end"
        after = f" that end after {shown_time(self.watermark)}" if self.watermark else ""
        closing = "a window closes when event time passes its end"
        return f"windows of {self.vertex}{after} are open: {closing} (newest row: {shown_time(self.newest)})"


def open_windows(state: JobState, held: Iterable[HeldWindows] = ()) -> list[OpenWindows]:
    """Return the queries with open windows at the last completed checkpoint, without those in ``held``.

    The window of the newest row is open, because the watermark never passes that row while the query runs.
    """
    marks, going = state.watermarks(), _going(state) - {one.vertex for one in held}
    found = []
    for vertex, times in state.times().items():
        newest = max((one.newest for one in times.values() if one.newest is not None), default=None)
        mark = marks.get(vertex)
        is_closed = mark is not None and mark >= MAX_WATERMARK
        if newest is not None and vertex in going and not is_closed and _has_windows(state, vertex):
            found.append(OpenWindows(vertex, mark, newest, _unread(state, vertex)))
    return found


def _going(state: JobState) -> set[str]:
    """Return the vertices with a subtask that is not at its end."""
    done = state.checkpoints.get(state.last_completed)
    return set() if done is None else {name.vertex for name, shot in done.subtasks.items() if not shot.finished}


def _has_windows(state: JobState, vertex: str) -> bool:
    """Return whether the query outputs each group once, when event time has passed it."""
    recorded = None if state.plan is None else state.plan.definition
    query = None if recorded is None else recorded.vertices.get(vertex)
    if query is None or query.output_mode != "append" or not query.event_time:
        return False
    return any(one.kind == "Aggregate" for one in query.kept)


def _unread(state: JobState, vertex: str) -> tuple[str, ...]:
    """Return the bounded sources that keep the watermark of the query at its start."""
    graph, recorded = state.graph(), None if state.plan is None else state.plan.definition
    in_order = {uid for uid, source in recorded.sources.items() if source.in_order} if recorded else set()
    of_vertex = next((one for one in graph.vertices if one.uid == vertex), None)
    ended = {*state.dropped.get(vertex, ()), *state.ended.get(vertex, ()), *in_order}
    if of_vertex is None:
        return ()
    producers = {edge.uid: edge.producer for edge in graph.inputs(vertex) if graph.vertex(edge.producer).bounded}
    unread = [uid for uid in of_vertex.bounded_sources if uid not in ended]
    return (*unread, *(producer for uid, producer in producers.items() if uid not in ended))


def batches(state: JobState) -> Mapping[str, int]:
    """Return the last micro-batch of each subtask at the last completed checkpoint, to compare two checkpoints."""
    done = state.checkpoints.get(state.last_completed)
    snapshots = {} if done is None else done.subtasks
    return {str(subtask): shot.batch_id for subtask, shot in snapshots.items() if shot.batch_id is not None}


def why_no_row(state: JobState, before: Mapping[str, int], completed: int) -> str:
    """Return why a run has released no row.

    Args:
        state: the job at the end of the run.
        before: :func:`batches` at the start of the run.
        completed: the last completed checkpoint at the start of the run.
    """
    if state.last_completed == completed:
        return "no checkpoint completed"
    windows = "; ".join(map(str, open_windows(state)))
    if windows:
        return windows
    if batches(state) == before:
        return "no micro-batch ended: there was nothing new to read, or the run was too short"
    return "no query gave a row"
