"""What was kept of a job in batch mode, and what is run again, and why: for a person."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.model.words import counted

_SHOWN = 5
_LINES = 50


def told_of(event: JobReconciled) -> str:
    """In one sentence."""
    if not event.reset and not any(_kept(event)):
        return "the runs before finished no part of the job; it runs from the start"
    kept = ", ".join(_kept(event)) or "nothing"
    again = [f"{one.subtask} ({_why(one)})" for one in event.reset[:_SHOWN]]
    if len(event.reset) > _SHOWN:
        again.append(f"and {len(event.reset) - _SHOWN} more")
    return f"kept of the runs before: {kept}; run again: {'; '.join(again) or 'nothing of it'}"


def table(event: JobReconciled) -> Iterator[str]:
    """A line for each subtask, the kept ones of a vertex in one."""
    yield f"recovery in epoch {event.epoch}:"
    for what in _kept(event):
        yield f"  kept       {what}"
    for one in event.reset:
        yield f"  run again  {one.subtask}: {_why(one)}"


def short_table(event: JobReconciled) -> Iterator[str]:
    """As :func:`table`, for a place that has no room for thousands of lines."""
    lines = list(table(event))
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"  … and {len(lines) - _LINES} more: `ckpt show`"


def _kept(event: JobReconciled) -> Iterator[str]:
    by_vertex: dict[str, int] = {}
    for subtask in event.kept:
        by_vertex[subtask.vertex] = by_vertex.get(subtask.vertex, 0) + 1
    for vertex, count in by_vertex.items():
        if vertex not in event.splits_kept:
            yield vertex if count == 1 else f"{vertex} ({counted(count, 'subtask')})"
    yield from (f"{source} ({counted(count, 'split')})" for source, count in event.splits_kept.items() if count)


def _why(reset: Reset) -> str:
    if not reset.positions:
        return "the journal has it at its end, and its log has not"
    what, numbers = ("batch", reset.positions) if reset.splits is None else ("split", reset.splits)
    for_what = "are to be kept" if reset.consumer == reset.subtask else f"{reset.consumer} is to read"
    return f"files of {counted(size(numbers), what)} are gone that {for_what}"
