"""Texts about event time: the progress of queries, the source that delays windows, and unusable event times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.printable import instant_text

CLOCKS_DIFFER = 60.0
"""Seconds by which a watermark may be ahead of the clock without a warning."""
IS_QUIET = 60.0
"""Seconds without a row after which a source that holds back windows is reported."""
_REASONS = (
    ("without", "without an event time"),
    ("before_1970", "before 1970"),
    ("ahead", "further ahead of the clock than max_ahead"),
)

Unfit = Mapping[tuple[str, str, str], int]
"""(reason, source, vertex) → rows with an unusable event time since the job began."""


def unfit_rows(state: JobState, checkpoint: int | None = None) -> dict[tuple[str, str, str], int]:
    """Return (reason, source, vertex) → number of rows with an event time that the vertex cannot use.

    Zeros are omitted. ``checkpoint`` is the checkpoint up to which rows are counted; None for the last completed
    checkpoint.
    """
    return {
        (reason, source, vertex): rows
        for name, reason in _REASONS
        for vertex, times in state.times(checkpoint).items()
        for source, source_times in times.items()
        if (rows := getattr(source_times, name))
    }


def new_unfit_rows(before: Unfit, now: Unfit) -> str:
    """Return a text about the rows with an unusable event time that ``now`` has and ``before`` lacks; "" if none."""
    more = {key: rows - before.get(key, 0) for key, rows in now.items()}
    texts = []
    for _, reason in _REASONS:
        new = sum(rows for key, rows in more.items() if key[0] == reason and rows > 0)
        if new:
            texts.append(f"; {counted(new, 'more row')} came {reason} (since the job began: {_counts_of(reason, now)})")
    return "".join(texts)


def all_unfit_rows(rows: Unfit) -> list[str]:
    """Return one text for each reason that occurs in ``rows``, such as ``rows before 1970: 3 of live in counts``."""
    return [
        f"rows {reason}: {_counts_of(reason, rows)}" for _, reason in _REASONS if any(key[0] == reason for key in rows)
    ]


def _counts_of(reason: str, rows: Unfit) -> str:
    return ", ".join(f"{count} of {key[1]} in {key[2]}" for key, count in rows.items() if key[0] == reason)


@dataclass(frozen=True)
class HeldWindows:
    """A query whose windows wait for rows of one source.

    ``watermark`` is the query's watermark in epoch milliseconds. ``last_row_at`` is the time in epoch seconds at which
    the source's last row was read; None without a row.
    """

    vertex: str
    source: str
    watermark: int | None
    last_row_at: float | None

    def shown(self, now: float) -> str:
        since = (
            "has had no row" if self.last_row_at is None else f"has had no row for {_duration(now - self.last_row_at)}"
        )
        at = "" if self.watermark is None else f" at {shown_time(self.watermark)}"
        return f"the windows of {self.vertex} wait{at}, because source {self.source} {since}"


def held_windows(state: JobState, now: float) -> list[HeldWindows]:
    """Return the queries whose windows wait for newer rows of a live source that has been quiet for IS_QUIET seconds.

    A query that still reads a bounded source waits for the end of that source, and is omitted.
    """
    held = []
    marks = state.watermarks()
    for vertex, times in state.times().items():
        inputs = [uid for uid in _live_inputs(state, vertex) if uid in times or _has_watermark(state, uid)]
        if len(inputs) < 2:
            continue
        held_by = min(inputs, key=lambda uid: _mark(times.get(uid)))
        slowest, others = times.get(held_by, SourceTimes()), [_mark(times.get(uid)) for uid in inputs if uid != held_by]
        is_passed = marks.get(vertex, 0) > _mark(slowest)
        is_quiet = slowest.last_row_at is None or now - slowest.last_row_at >= IS_QUIET
        if is_quiet and not is_passed and max(others) > _mark(slowest):
            held.append(HeldWindows(vertex, held_by, marks.get(vertex), slowest.last_row_at))
    return held


def _live_inputs(state: JobState, vertex: str) -> list[str]:
    """Return the sources and producers that feed the vertex. Empty if it has left the job or has a bounded input."""
    graph, left_out = state.graph(), state.dropped.get(vertex, ())
    graph_vertex = next((candidate for candidate in graph.vertices if candidate.uid == vertex), None)
    if graph_vertex is None:
        return []
    edges = [edge for edge in graph.inputs(vertex) if edge.uid not in left_out]
    sources = [uid for uid in graph_vertex.sources if uid not in left_out]
    ends = {*graph_vertex.bounded_sources, *(edge.producer for edge in edges if graph.vertex(edge.producer).bounded)}
    inputs = [*sources, *(edge.producer for edge in edges)]
    return [] if ends.intersection(inputs) else inputs


def _has_watermark(state: JobState, uid: str) -> bool:
    """Return True if the plan declares event time for the source ``uid``; False if ``uid`` is another query."""
    source = None if state.plan is None else state.plan.definition.sources.get(uid)
    return source is not None and source.watermark is not None


def _mark(times: SourceTimes | None) -> int:
    return 0 if times is None or times.watermark is None else times.watermark


def ahead_of_clock(state: JobState, now: float) -> dict[str, int]:
    """Return vertex → watermark (epoch milliseconds) of queries with state that are ahead of the clock.

    A query that was drained is omitted.
    """
    marks = {uid: mark for uid, mark in state.watermarks().items() if mark < MAX_WATERMARK}
    return {uid: marks[uid] for uid in state.times() if marks.get(uid, 0) / 1000 > now + CLOCKS_DIFFER}


def shown_ahead(vertex: str, watermark: int) -> str:
    return (
        f"the watermark of {vertex} is ahead of the clock, at {shown_time(watermark)}: rows of the present are late "
        "and are dropped. Look for rows with a wrong event time, and give their source a smaller max_ahead"
    )


def shown_times(state: JobState) -> Iterator[str]:
    """Yield a text for each query with state and event time: its watermark and the event time of each source."""
    marks = state.watermarks()
    for vertex, times in state.times().items():
        at = shown_time(marks[vertex]) if vertex in marks else "the start"
        yield f"{vertex} at {at} ({', '.join(_shown_source(*source) for source in times.items())})"


def _shown_source(uid: str, times: SourceTimes) -> str:
    if times.watermark is None or times.last_row_at is None:
        return f"{uid}: no event time so far"
    return f"{uid} at {shown_time(times.watermark)}, last row {shown_time(round(times.last_row_at * 1000))}"


def shown_time(milliseconds: int) -> str:
    try:
        return instant_text(milliseconds / 1000)
    except (OverflowError, ValueError):  # Spark knows years that Python does not
        return f"{milliseconds} ms since 1970"


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{int(seconds)} s" if minutes < 2 else f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def event_time_view(state: JobState) -> dict[str, Any]:
    """Return the event time of the queries with state, in the form of ``ckpt show --json`` (docs/cli.md)."""
    marks = state.watermarks()
    return {
        vertex: {
            "watermark": marks.get(vertex),
            "sources": {uid: _source_view(time) for uid, time in times.items()},
        }
        for vertex, times in state.times().items()
    }


def _source_view(times: SourceTimes) -> dict[str, Any]:
    return {
        "watermark": times.watermark,
        "last_row_at": times.last_row_at,
        "rows_without_event_time": times.without,
        "rows_before_1970": times.before_1970,
        "rows_ahead": times.ahead,
    }
