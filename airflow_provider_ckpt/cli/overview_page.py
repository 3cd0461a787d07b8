"""The page of ``ckpt show``: problems first, then sources, queries, sinks and checkpoints of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from airflow_provider_ckpt.cli import quantities
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.status.job_overview import (
    CheckpointOverview,
    JobOverview,
    Problem,
    SinkOverview,
    SourceOverview,
    VertexOverview,
)

PIPE_WIDTH = 160
"""Columns of the page if the output is no terminal."""
CHECKPOINTS_SHOWN = 5
IDLE = "–"
_STATUS_STYLES: dict[str, str] = {
    JobStatus.RUNNING: "bold green",
    JobStatus.FAILED: "bold red",
    JobStatus.FINISHED: "bold cyan",
}
_MARKS = {"error": ("✗ ", "red"), "warning": ("! ", "yellow"), "info": ("· ", "cyan")}


def console() -> Console:
    """Return the console of this process. Colours follow the terminal and ``NO_COLOR``."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, emoji=False)


def page(overview: JobOverview, now: float, checkpoints: int = CHECKPOINTS_SHOWN) -> RenderableType:
    """Return the page of a job. ``now`` is in epoch seconds, ``checkpoints`` is the maximum number to show."""
    blocks: list[list[RenderableType]] = [
        [_headline(overview, now), *_problems(overview.problems)],
        [Text(f"  {line}") for line in graph_lines(overview)],
        [_sources(overview.sources)] if overview.sources else [],
        [_vertices(overview.vertices)] if overview.vertices else [],
        [_sinks(overview.sinks, now)] if overview.sinks else [],
        [_checkpoints(overview.checkpoints[:checkpoints])] if overview.checkpoints else [],
    ]
    shown = [Group(*block) for block in blocks if block]
    return Group(*(part for block in shown for part in (block, Text())))


def _text(value: object, style: str = "") -> Text:
    """Return a table cell, with a dash for None. Control characters are escaped, and brackets are no markup."""
    return Text(IDLE if value is None else one_line(str(value)), style=style if value is not None else "dim")


def _headline(overview: JobOverview, now: float) -> Text:
    status = one_line(overview.status or "NOT RUNNING YET")
    line = Text.assemble(
        (one_line(overview.job_id), "bold"), "   ", (status, _STATUS_STYLES.get(status, "bold yellow"))
    )
    facts = [overview.mode, f"epoch {overview.epoch}"]
    if overview.status == JobStatus.RUNNING and overview.driver_since is not None:
        facts.append(f"since {_clock(overview.driver_since)} ({quantities.span(now - overview.driver_since)})")
    if overview.host is not None:
        facts.append(f"driver pid {overview.pid} on {overview.host}")
    if overview.stopping or overview.draining:
        facts.append("stopping" if overview.stopping else "draining")
    if overview.measured_at is not None:
        facts.append(f"measured {quantities.ago(overview.measured_at, now)}")
    line.append(f"   {', '.join(one_line(str(fact)) for fact in facts if fact)}", style="dim")
    return line


def _problems(problems: Iterable[Problem]) -> Iterator[Text]:
    for problem in problems:
        mark, style = _MARKS[problem.severity]
        advice = f". {problem.advice}" if problem.advice else ""
        yield Text.assemble(
            (mark, style), (one_line(problem.subject), f"bold {style}"), " ", one_line(f"{problem.message}{advice}")
        )


def graph_lines(overview: JobOverview) -> list[str]:
    """Return one line for each query: its sources and input queries, its operators, and its sinks."""
    sources = {source.uid for source in overview.sources}
    return [
        " → ".join(
            part
            for part in (
                _list([*vertex.inputs, *(uid for uid in vertex.operators[:-1] if uid in sources)]),
                " → ".join(one_line(uid) for uid in vertex.operators if uid not in sources) or one_line(vertex.uid),
                _list(vertex.sinks),
            )
            if part
        )
        for vertex in overview.vertices
    ]


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _sources(sources: Iterable[SourceOverview]) -> Table:
    table = _table("SOURCE", "PROGRESS", "", "RATE", "LAG", "NEWEST EVENT")
    for source in sources:
        table.add_row(
            _text(source.uid),
            _text(progress(source)),
            _bar(source),
            _text(quantities.per_second(source.rows_per_second)),
            _text(lag(source)),
            _text(None if source.newest is None else _day(source.newest)),
        )
    return table


def progress(source: SourceOverview) -> str | None:
    """Return how far a source is read, as text; None if nothing is known."""
    if source.is_finished:
        return "finished" if source.total is None else f"finished, {source.total:,} {source.unit}"
    if source.done is not None and source.total is not None and source.unit is not None:
        return quantities.part(source.done, source.total, source.unit)
    if source.bounded and source.left is not None:
        return f"{source.left:,} {source.unit} left"
    return None if source.rows is None else f"{quantities.short(source.rows)} rows since the driver began"


def lag(source: SourceOverview) -> str | None:
    """Return the estimated time to a bounded source's end, or how much a live source has left to read.

    None for a finished source, and if the value is unknown.
    """
    if source.is_finished:
        return None
    if source.seconds_left is not None:
        return f"{quantities.span(source.seconds_left)} left"
    return None if source.behind is None else f"{source.behind:,} {source.unit or 'records'} behind"


def _bar(source: SourceOverview) -> RenderableType:
    if source.is_finished or source.done is None or not source.total:
        return Text()
    return ProgressBar(total=source.total, completed=source.done, width=20)


def _vertices(vertices: Iterable[VertexOverview]) -> Table:
    table = _table("QUERY", "SUBTASKS", "BATCH", "RATE", "STATE", "WATERMARK", "WAITS FOR")
    for vertex in vertices:
        table.add_row(
            _text(vertex.uid),
            _text(_statuses(vertex)),
            _text(None if vertex.batch is None else f"{vertex.batch:,}{_took(vertex.batch_seconds)}"),
            _text(quantities.per_second(vertex.rows_per_second)),
            _text(_state(vertex)),
            _text(None if vertex.watermark is None else _day(vertex.watermark)),
            _text(vertex.waits),
        )
    return table


def _statuses(vertex: VertexOverview) -> str:
    counts: dict[str, int] = {}
    for subtask in vertex.subtasks:
        counts[subtask.status] = counts.get(subtask.status, 0) + 1
    if len(vertex.subtasks) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def _took(seconds: float | None) -> str:
    return "" if seconds is None else f" ({seconds:.1f} s)"


def _state(vertex: VertexOverview) -> str | None:
    if vertex.state_rows is None:
        return None
    return f"{quantities.short(vertex.state_rows)} keys, {quantities.size(vertex.state_bytes or 0)}"


def _sinks(sinks: Iterable[SinkOverview], now: float) -> Table:
    table = _table("SINK", "KIND", "RELEASED", "LAST RELEASE", "STATUS")
    for sink in sinks:
        last = quantities.ago(sink.released_at, now)
        counts = quantities.rows(dict(sink.last_counts))
        table.add_row(
            _text(sink.uid),
            _text(sink.kind or None),
            _text(quantities.rows(dict(sink.counts))),
            _text(None if last is None else f"{last} ({counts}, checkpoint {sink.released})"),
            _sink_status(sink, now),
        )
    return table


def _sink_status(sink: SinkOverview, now: float) -> Text:
    if sink.failing_since is not None:
        return _text(f"✗ failing for {quantities.span(now - sink.failing_since)}", "red")
    if sink.held_by is not None:
        return _text("held by a gate", "yellow")
    return _text("releasing" if sink.waiting else "✓", "green")


def _checkpoints(checkpoints: Iterable[CheckpointOverview]) -> Table:
    table = _table("CHECKPOINT", "WHEN", "KIND", "ROWS", "TOOK", "STATUS")
    for checkpoint in checkpoints:
        table.add_row(
            _text(checkpoint.checkpoint),
            _text(None if checkpoint.triggered_at is None else _clock(checkpoint.triggered_at)),
            _text(checkpoint.kind),
            _text(None if checkpoint.rows is None else f"{checkpoint.rows:,}"),
            _text(took(checkpoint)),
            _text(checkpoint.status if checkpoint.reason is None else f"{checkpoint.status}: {checkpoint.reason}"),
        )
    return table


def took(checkpoint: CheckpointOverview) -> str | None:
    """Return the time from the trigger of a checkpoint to its completion; None if it did not complete."""
    if checkpoint.triggered_at is None or checkpoint.completed_at is None:
        return None
    seconds = max(0.0, checkpoint.completed_at - checkpoint.triggered_at)
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else quantities.span(seconds)


def _clock(at: float) -> str:
    return _instant(at, "%m-%d %H:%M:%SZ")


def _day(milliseconds: int) -> str:
    return _instant(milliseconds / 1000, "%Y-%m-%d %H:%M:%SZ")


def _instant(at: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(at, timezone.utc).strftime(form)
    except (OverflowError, ValueError, OSError):  # Spark knows years that Python does not
        return f"{at:g} s since 1970"
