"""The problems of a job that a user should know, the worst first, each with the next step."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.status.changed_files import WAY_OUT, partly_read_sources
from airflow_provider_ckpt.status.event_time_text import (
    ahead_of_clock,
    all_unfit_rows,
    shown_ahead,
    shown_time,
    unfit_rows,
)
from airflow_provider_ckpt.status.job_overview import JobOverview, Problem

_ORDER = ("error", "warning", "info")


def problems(overview: JobOverview, state: JobState, now: float) -> list[Problem]:
    """Return the problems of a job at the time of its overview. ``now`` is in epoch seconds."""
    found = [*_of_run(overview, state), *_of_sinks(overview), *_of_checkpoints(overview), *_of_rows(state, now)]
    return sorted(found, key=lambda problem: _ORDER.index(problem.severity))


def _of_run(overview: JobOverview, state: JobState) -> Iterator[Problem]:
    if overview.cause and overview.status in (JobStatus.FAILED, JobStatus.RESTARTING):
        resumes = f"after checkpoint {overview.last_completed}" if overview.last_completed else "from the beginning"
        again = " with --resume-failed" if overview.status == JobStatus.FAILED else ""
        advice = f"Correct the cause and run the same command{again}: the job resumes {resumes}"
        yield Problem("error", overview.job_id, overview.cause, advice)
    for damage in state.damage:
        yield Problem("error", "journal", damage, "Restore the named file. Nothing is written before that")
    restarts = [(subtask, count) for subtask, count in sorted(state.restarts.items()) if count]
    for subtask, count in restarts:
        yield Problem("warning", subtask, f"restarted {counted(count, 'time')}; the others continued")


def _of_sinks(overview: JobOverview) -> Iterator[Problem]:
    for sink in overview.sinks:
        if sink.failure is not None and sink.failing_since is not None:
            since = shown_time(round(sink.failing_since * 1000))
            advice = "Its rows stay staged, other sinks continue, and the release is tried again. Remove the cause"
            yield Problem("error", sink.uid, f"has failed to release since {since}: {sink.failure}", advice)
        elif sink.held_by is not None:
            gate = "its gate" if sink.held_by == sink.uid else f"the gate of {sink.held_by}"
            waits = counted(sink.waiting, "checkpoint")
            yield Problem("info", sink.uid, f"{gate} is closed, {waits} not released", "Open the gate to release them")


def _of_checkpoints(overview: JobOverview) -> Iterator[Problem]:
    aborted = []
    for checkpoint in overview.checkpoints:
        if checkpoint.status == "aborted":
            aborted.append(checkpoint)
        elif checkpoint.status != "in progress":
            break
    if aborted and overview.status == JobStatus.RUNNING:
        failures = f"the last {counted(len(aborted), 'checkpoint')} failed" if len(aborted) > 1 else "failed"
        yield Problem("warning", f"checkpoint {aborted[0].checkpoint}", f"{failures}: {aborted[0].reason}")


def _of_rows(state: JobState, now: float) -> Iterator[Problem]:
    """Yield a problem for each kind of rows and files that the output lacks, or has only in part."""
    for vertex, rows in state.late_rows().items():
        advice = "A longer delay in watermark=(column, delay) would keep them, in a job with another id"
        yield Problem("warning", vertex, f"dropped {counted(rows, 'late row')} since the job began", advice)
    for source, rows in state.malformed_rows().items():
        message = f"{counted(rows, 'row')} since the job began that do not fit its schema"
        yield Problem("warning", source, message, "Correct the producer or the schema")
    for text in all_unfit_rows(unfit_rows(state)):
        yield Problem("warning", "event time", text, "Correct the event times at the producer")
    for vertex, watermark in ahead_of_clock(state, now).items():
        yield Problem("warning", vertex, shown_ahead(vertex, watermark))
    for text in partly_read_sources(state):
        yield Problem("warning", "changed files", text, WAY_OUT)
    if state.forgotten_files:
        yield Problem("warning", "files given up", f"{counted(len(state.forgotten_files), 'file')} by --forget-file")
    for late in state.late_files:
        if not late.read:
            message = f"{counted(late.total, 'file')} came after it was frozen, and the job does not read them"
            yield Problem("warning", late.uid, message, "Run another job for them, or write them to the live source")
