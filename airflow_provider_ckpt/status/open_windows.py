"""Open windows, which delay rows, and the reasons why a run has released no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.status.event_time_text import HeldWindows, shown_time


@dataclass(frozen=True)
class OpenWindows:
    """A query whose newest rows belong to windows that are not closed.

    Attributes:
        watermark: the query's watermark in epoch milliseconds; None without one.
        newest: event time of the query's newest row in epoch milliseconds.
        unread: inputs whose end the windows wait for.
        awaited: live inputs whose next row moves event time. Their earlier rows did not, because bounded inputs held
            event time back.
    """

    vertex: str
    watermark: int | None
    newest: int
    unread: tuple[str, ...]
    awaited: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.unread:
            return f"windows of {self.vertex} are open until {' and '.join(self.unread)} is read to its end"
        if self.awaited:
            return (
                f"windows of {self.vertex} are open until the next row of {' and '.join(self.awaited)} comes: rows "
                f"that were read beside history do not move event time (newest row: {shown_time(self.newest)})"
            )
        after = f" that end after {shown_time(self.watermark)}" if self.watermark else ""
        closing = "a window closes when event time passes its end"
        return f"windows of {self.vertex}{after} are open: {closing} (newest row: {shown_time(self.newest)})"


def open_windows(state: JobState, held: Iterable[HeldWindows] = ()) -> list[OpenWindows]:
    """Return the queries with open windows at the last completed checkpoint, except those in ``held``.

    The window of the newest row is open, because the watermark never passes that row while the query runs.
    """
    marks, running = state.watermarks(), _running_vertices(state) - {query.vertex for query in held}
    windows = []
    for vertex, times in state.times().items():
        newest = max((time.newest for time in times.values() if time.newest is not None), default=None)
        mark = marks.get(vertex)
        is_closed = mark is not None and mark >= MAX_WATERMARK
        if newest is not None and vertex in running and not is_closed and _has_windows(state, vertex):
            unread = _unread_inputs(state, vertex)
            awaited = () if mark or unread else _awaited_inputs(state, vertex)
            windows.append(OpenWindows(vertex, mark, newest, unread, awaited))
    return windows


def _running_vertices(state: JobState) -> set[str]:
    """Return the vertices with an unfinished subtask at the last completed checkpoint; empty without a checkpoint."""
    done = state.checkpoints.get(state.last_completed)
    return (
        set()
        if done is None
        else {subtask.vertex for subtask, snapshot in done.subtasks.items() if not snapshot.finished}
    )


def _has_windows(state: JobState, vertex: str) -> bool:
    """Return True if the query outputs each group of an aggregation once, after event time has passed the group."""
    query = None if state.plan is None else state.plan.definition.vertices.get(vertex)
    if query is None or query.output_mode != "append" or not query.event_time:
        return False
    return any(kept.kind == "Aggregate" for kept in query.kept)


def _unread_inputs(state: JobState, vertex: str) -> tuple[str, ...]:
    """Return the bounded inputs that are not read to their ends and hold back the query's watermark."""
    ended = {*state.dropped.get(vertex, ()), *state.ended.get(vertex, ())}
    return tuple(producer for uid, producer in _holding_inputs(state, vertex).items() if uid not in ended)


def _awaited_inputs(state: JobState, vertex: str) -> tuple[str, ...]:
    """Return the live inputs of a query that has run no batch since its last bounded input ended.

    Empty if the query has run such a batch, or if no bounded input held back its watermark.
    """
    dropped, holding = state.dropped.get(vertex, {}), _holding_inputs(state, vertex)
    done = state.checkpoints.get(state.last_completed)
    batches = (
        [snapshot.batch_id for subtask, snapshot in done.subtasks.items() if subtask.vertex == vertex] if done else []
    )
    newest = max((batch for batch in batches if batch is not None), default=-1)
    if not any(newest <= dropped.get(uid, newest) for uid in holding):
        return ()
    graph = state.graph()
    live = [uid for uid in graph.vertex(vertex).sources if uid not in graph.vertex(vertex).bounded_sources]
    return (*live, *(edge.producer for edge in graph.inputs(vertex) if not graph.vertex(edge.producer).bounded))


def _holding_inputs(state: JobState, vertex: str) -> dict[str, str]:
    """Return uid → producer of the bounded inputs that hold back the query's watermark until their ends are read.

    A source is its own producer.
    """
    graph, recorded = state.graph(), state.definition
    graph_vertex = next((candidate for candidate in graph.vertices if candidate.uid == vertex), None)
    if graph_vertex is None:
        return {}
    in_order = {uid for uid, source in recorded.sources.items() if source.in_order} if recorded else set()
    bounded = [edge for edge in graph.inputs(vertex) if graph.vertex(edge.producer).bounded]
    edges = {edge.uid: edge.producer for edge in bounded if set(graph.upstream_sources(edge.producer)) - in_order}
    return {**{uid: uid for uid in graph_vertex.bounded_sources if uid not in in_order}, **edges}


def batches(state: JobState) -> Mapping[str, int]:
    """Return subtask → id of its last micro-batch at the last completed checkpoint, to compare two checkpoints."""
    done = state.checkpoints.get(state.last_completed)
    snapshots = {} if done is None else done.subtasks
    return {str(subtask): snapshot.batch_id for subtask, snapshot in snapshots.items() if snapshot.batch_id is not None}


def why_no_row(state: JobState, before: Mapping[str, int], completed: int) -> str:
    """Return why a run has released no row.

    Args:
        state: the state at the end of the run.
        before: the result of :func:`batches` at the start of the run.
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
