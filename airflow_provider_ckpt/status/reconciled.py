"""Texts about a job in batch mode that was resumed: reused results, and the subtasks that run again, with reasons."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.model.words import ckpt_command, counted

_SHOWN = 5
_LINES = 50


def recovery_summary(event: JobReconciled) -> str:
    """Return one sentence about the recovery: what is reused, and what runs again."""
    if not event.reset and not any(_kept(event)):
        return "the runs before finished no part of the job; it runs from the start"
    kept = ", ".join(_kept(event)) or "nothing"
    runs_again = [f"{reset.subtask} ({_why(reset)})" for reset in event.reset[:_SHOWN]]
    if len(event.reset) > _SHOWN:
        runs_again.append(f"and {len(event.reset) - _SHOWN} more")
    return f"kept from earlier runs: {kept}; run again: {'; '.join(runs_again) or 'nothing'}"


def table(event: JobReconciled) -> Iterator[str]:
    """Yield a heading, and a line for each subtask. Subtasks of one vertex whose results are reused share a line."""
    yield f"recovery in epoch {event.epoch}:"
    for result in _kept(event):
        yield f"  kept       {result}"
    for reset in event.reset:
        yield f"  run again  {reset.subtask}: {_why(reset)}"


def short_table(event: JobReconciled, job_id: str, root: str) -> Iterator[str]:
    """Yield the first 50 lines of :func:`table`. If it has more lines, yield also a command that prints all of them."""
    lines = list(table(event))
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"  … and {len(lines) - _LINES} more: `{ckpt_command('show', job_id, root=root)}`"


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
        return "its end is in the journal but not in its log"
    unit, numbers = ("batch", reset.positions) if reset.splits is None else ("split", reset.splits)
    consumer = "must be kept" if reset.consumer == reset.subtask else f"{reset.consumer} must read"
    return f"files of {counted(size(numbers), unit)} are gone that {consumer}"
