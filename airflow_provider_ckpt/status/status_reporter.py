"""The writer of a run's status lines, for users and for the Airflow operator.

Every event that changes the job's progress gets a line. A line with ``quiet`` is for programs only (the pointer in
Airflow). Users see a line for each checkpoint that released something. Otherwise they see one line every ten minutes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    Event,
    FilesForgotten,
    JobReconciled,
    LateFilesFound,
    ReconfigurationEnded,
    Reconfigured,
    SinkReleased,
    SourceDropped,
    SourceEnded,
    SourceFilesChanged,
    SubtaskFinished,
    SubtaskRestarting,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.status.changed_files import WAY_OUT, changed_files, partly_read_sources
from airflow_provider_ckpt.status.event_time_text import (
    Unfit,
    ahead_of_clock,
    all_unfit_rows,
    held_windows,
    new_unfit_rows,
    shown_ahead,
    unfit_rows,
)
from airflow_provider_ckpt.status.job_overview import EVENTS, EventOverview
from airflow_provider_ckpt.status.open_windows import OpenWindows, batches, open_windows, why_no_row
from airflow_provider_ckpt.status.reconciled import recovery_summary, short_table
from airflow_provider_ckpt.status.settings_text import shown
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine

OnStatus = Callable[[StatusLine], None]
IDLE_SECONDS = 600.0
"""Seconds between two visible lines about checkpoints if no checkpoint releases anything."""


class StatusReporter:
    """The writer of a run's status lines.

    The data of each line are ``job_id``, ``application_id``, ``epoch`` and further fields for the kind. ``root`` is the
    text of the root in commands that a line names.
    """

    def __init__(self, on_status: OnStatus, job_id: str, application_id: str | None, root: str) -> None:
        self._on_status = on_status
        self._job_id = job_id
        self._application_id = application_id
        self._root = root
        self.events: deque[EventOverview] = deque(maxlen=EVENTS)
        """The last lines for users, oldest first."""
        self._shown_at: float | None = None
        self._late_rows = 0
        """Number of rows dropped as late since the job began, as the last line about such rows stated."""
        self._unfit: Unfit = {}
        """Numbers of rows with an unusable event time since the job began, as the last line about such rows stated."""
        self._ahead: set[str] = set()
        """Vertices for which a line has warned that the watermark is ahead of the clock."""
        self._malformed_rows = 0
        """Number of malformed rows since the job began, as the last line about such rows stated."""
        self._rows: int | None = 0
        """Number of rows released in this run; None if a sink does not count rows."""
        self._batches: Mapping[str, int] = {}
        """Subtask → id of its last micro-batch at the checkpoint from which this run started."""
        self._completed = 0
        """Number of the checkpoint from which this run started; 0 if there was none."""
        self._open: set[tuple[str, bool]] = set()
        """(vertex, True if its windows wait for the end of an input) for open windows that a line has reported."""

    def report(self, kind: LineKind, message: str, state: JobState | None = None, **more: Any) -> None:
        shown = cause_first(message)
        if "\n" in message.strip():
            more.setdefault("traceback", message)  # the full text, in addition to the cause
        data: dict[str, Any] = {"job_id": self._job_id, "application_id": self._application_id}
        if state is not None:
            data["epoch"] = state.epoch
            data["checkpoint"] = state.last_completed
            data["released"] = state.last_released
            data["finished_operators"] = state.finished_operators()
            data["late_rows"] = sum(state.late_rows().values())
            data["changed_files"] = state.changed_file_count()
            data["unfit_rows"] = state.unfit_rows()
            data["malformed_rows"] = sum(state.malformed_rows().values())
        line = StatusLine(kind, shown, {**data, **more})
        if not line.is_quiet:
            self.events.append(EventOverview(time.time(), str(kind), shown))
        self._on_status(line)

    def started(self, state: JobState, before: str, resumed: bool, **places: Any) -> None:
        """Report that the run has started.

        ``before`` is a word for the end of the previous driver, such as "killed". ``places`` are for programs:
        ``spark_ui`` is a URL, and ``outputs`` maps each sink to the URI of its folder.
        """
        self._late_rows = sum(state.late_rows().values())
        self._unfit = unfit_rows(state)
        self._malformed_rows = sum(state.malformed_rows().values())
        self._batches, self._completed = batches(state), state.last_completed
        if not resumed:
            self.report(LineKind.STARTED, f"job {self._job_id} starts (epoch {state.epoch})", state, **places)
            return
        skipped = ", ".join(state.finished_operators())
        where = f"from checkpoint {state.last_completed}" if state.last_completed else "before any checkpoint"
        parts = [f"resumed {where}", f"epoch {state.epoch}", f"the driver before: {_BEFORE.get(before, before)}"]
        if skipped:
            parts.insert(1, f"skipped finished operators: {skipped}")
        self.report(LineKind.RESUMED, "; ".join(parts), state, driver_before=before, **places)

    def running(self, state: JobState) -> None:
        self.report(LineKind.RUNNING, f"job {self._job_id} is RUNNING", state)

    def ended(self, state: JobState, status: JobStatus, cause: str | None) -> None:
        """Report how the run ended. This is the last line of the run."""
        kind = _ENDED.get(status, LineKind.FAILED)
        late = state.late_rows()
        dropped = f"; rows dropped as late since the job began: {_counts(late)}" if late else ""
        dropped += "".join(f"; {text}" for text in all_unfit_rows(unfit_rows(state)))
        malformed = _malformed(state.malformed_rows())
        dropped += f"; malformed rows since the job began: {malformed}" if malformed else ""
        unread_files = partly_read_sources(state)
        unread_text = f"; {'; '.join(unread_files)}" if unread_files else ""
        abandoned = (
            f"; files given up since the job began: {len(state.forgotten_files)}" if state.forgotten_files else ""
        )
        remainder = self._remainder(state, status) + abandoned
        message = f"job {self._job_id} {status}{f': {cause}' if cause else ''}{remainder}{dropped}{unread_text}"
        self.report(kind, message, state, status=status, terminal=status is JobStatus.FAILED)

    def _remainder(self, state: JobState, status: JobStatus) -> str:
        """Return a text about the input that a successful run has not read, and the output that it has not released."""
        if not status.ended_well:
            return ""
        bounded = {uid for vertex in state.graph().vertices for uid in vertex.bounded_sources}
        unread = sorted(bounded - set(state.finished_operators())) if status is JobStatus.STOPPED else []
        texts = [f"not read to the end: {', '.join(unread)}; the next run reads the rest"] if unread else []
        if state.has_unreleased:
            texts.append(f"checkpoint {state.last_completed} is not released in every sink")
        if self._rows == 0 and not state.driver_since:
            texts.append(f"this run released no row: {why_no_row(state, self._batches, self._completed)}")
        else:
            texts += map(str, open_windows(state))
        return "".join(f"; {text}" for text in texts)

    def event(self, event: Event, state: JobState) -> None:
        if isinstance(event, CheckpointCompleted):
            self._shown_at = event.at if self._shown_at is None else self._shown_at
            self.report(LineKind.CHECKPOINT, f"{_name(event)} completed in {_took(event)}", state, quiet=True)
        elif isinstance(event, CheckpointReleased):
            self._released(event, state)
        elif isinstance(event, SinkReleased):
            self._released_in_one(event, state)
        elif isinstance(event, JobReconciled):
            self.report(
                LineKind.RECONCILED,
                recovery_summary(event),
                state,
                recovery=list(short_table(event, self._job_id, self._root)),
            )
        elif isinstance(event, SourceEnded):
            self.report(LineKind.SOURCE_ENDED, _source_ended(event, state), state)
        elif isinstance(event, SourceDropped):
            left_out = f"finished source {_producer(event.uid, state) or event.uid} is left out of the running query"
            self.report(LineKind.SOURCE_DROPPED, left_out, state)
        elif described := _describe(event):
            kind, message = described
            self.report(kind, message, state)

    def _released(self, event: CheckpointReleased, state: JobState) -> None:
        done = state.checkpoints.get(event.checkpoint)
        name = f"checkpoint {event.checkpoint}" if done is None else _name(done)
        took = "" if done is None else f" ({_took(done)})"
        rows = [int(sink["rows"]) for sink in event.sinks.values() if "rows" in sink]
        late = self._late_since(state, event.checkpoint) + self._unfit_since(state, event.checkpoint)
        late += self._malformed_since(state, event.checkpoint)
        waiting = held_windows(state, event.at)
        held = "".join(f"; {query.shown(event.at)}" for query in waiting)
        self._warn_of_clock(state, event.at)
        counts_all = len(rows) == len(event.sinks)
        self._rows = self._rows + sum(rows) if self._rows is not None and counts_all else None
        if late or any(rows) or (not rows and any(_counts_something(sink) for sink in event.sinks.values())):
            self._shown_at = event.at
            what = f"released {counted(sum(rows), 'row')}" if rows else "released"
            self.report(LineKind.RELEASED, f"{name} {what}{took}{_progress(state)}{late}{held}", state)
        elif self._is_due(event, windows := open_windows(state, waiting)):
            self._shown_at = event.at
            self._open.update((window.vertex, bool(window.unread)) for window in windows)
            nothing = f"released no row: {'; '.join(map(str, windows))}" if windows else "released nothing new"
            self.report(LineKind.RELEASED, f"{name} {nothing}{held}", state)
        else:
            self.report(LineKind.RELEASED, f"{name} released nothing{took}", state, quiet=True)

    def _is_due(self, event: CheckpointReleased, windows: Sequence[OpenWindows]) -> bool:
        """Return True if users see the line of a checkpoint that released nothing.

        They do if windows are newly open, or if the last visible line about checkpoints is ten minutes old.
        """
        is_late = self._shown_at is None or not 0 <= event.at - self._shown_at < IDLE_SECONDS
        return is_late or any((window.vertex, bool(window.unread)) not in self._open for window in windows)

    def _late_since(self, state: JobState, checkpoint: int) -> str:
        """Return the text about rows dropped as late since the previous release line, or ""."""
        late = state.late_rows(checkpoint)
        new, self._late_rows = sum(late.values()) - self._late_rows, max(self._late_rows, sum(late.values()))
        return f"; dropped {counted(new, 'more late row')} (since the job began: {_counts(late)})" if new > 0 else ""

    def _unfit_since(self, state: JobState, checkpoint: int) -> str:
        """Return the text about rows with an unusable event time since the previous release line, or ""."""
        before, now = self._unfit, unfit_rows(state, checkpoint)
        self._unfit = {**before, **now}
        return new_unfit_rows(before, now)

    def _warn_of_clock(self, state: JobState, now: float) -> None:
        """Warn about each query whose watermark is ahead of the clock, but only once for each query."""
        for vertex, watermark in ahead_of_clock(state, now).items():
            if vertex not in self._ahead:
                self._ahead.add(vertex)
                self.report(LineKind.WARNING, shown_ahead(vertex, watermark), state)

    def _malformed_since(self, state: JobState, checkpoint: int) -> str:
        """Return the text about malformed rows since the previous release line, or ""."""
        rows = state.malformed_rows(checkpoint)
        total = sum(rows.values())
        new, self._malformed_rows = total - self._malformed_rows, max(self._malformed_rows, total)
        return (
            f"; read {counted(new, 'more malformed row')} (since the job began: {_malformed(rows)})" if new > 0 else ""
        )

    def _released_in_one(self, event: SinkReleased, state: JobState) -> None:
        """Report that one sink has released a checkpoint.

        Users see the line only if the sink released rows and another sink lags. The line about the checkpoint follows
        when all sinks have released it.
        """
        is_ahead, rows = len(state.unreleased) > 1, int(event.counts.get("rows", 0))
        text = f"{event.sink} released {counted(rows, 'row')}, up to checkpoint {event.checkpoint}"
        last = f"only up to checkpoint {state.last_released}" if state.last_released else "no checkpoint so far"
        behind = f"; another sink has released {last}"
        self.report(LineKind.RELEASED, f"{text}{behind}", state, quiet=not (is_ahead and rows))


_ENDED = {JobStatus.FINISHED: LineKind.FINISHED, JobStatus.STOPPED: LineKind.STOPPED}
_BEFORE = {
    "upgraded": "this one, with another version of the job",
    "left": "TAKEN OVER FROM, it was running and has left",
    "killed": "TAKEN OVER FROM, it was running, did not leave, and was killed",
    "unreachable": "out of reach from here (another host or boot, a triggerer), it can no longer write",
}


def _name(done: CheckpointCompleted) -> str:
    return f"checkpoint {done.checkpoint}" if done.kind == "checkpoint" else f"{done.kind} checkpoint {done.checkpoint}"


def _progress(state: JobState) -> str:
    """Return the progress of the sources with unread splits, as text; "" without such sources."""
    return "".join(
        f"; {source.source}: {source.done} of {source.total} splits" for source in state.split_progress() if source.open
    )


def _counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} by {vertex}" for vertex, count in rows.items())


def _malformed(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} in {source}" for source, count in rows.items())


def _took(done: CheckpointCompleted) -> str:
    return f"{round((done.at - done.triggered_at) * 1000)} ms"


def _counts_something(sink: Mapping[str, Any]) -> bool:
    """Return True if a count is positive. Each sink chooses the names of its counts."""
    return any(isinstance(count, int | float) and count > 0 for count in sink.values())


def _source_ended(event: SourceEnded, state: JobState) -> str:
    when = f"with batch {event.batch_id}" if event.batch_id >= 0 else "before the first batch"
    producer = _producer(event.uid, state)
    if producer is not None:
        return f"{event.vertex} has read all of {producer} ({when})"
    return f"bounded source {event.uid} has ended {when}"


def _producer(uid: str, state: JobState) -> str | None:
    """Return the producer of edge ``uid``, because users do not know names of edges; None if ``uid`` is a source."""
    return next((edge.producer for edge in state.graph().edges if edge.uid == uid), None)


def _describe(event: Event) -> tuple[LineKind, str] | None:
    if isinstance(event, CheckpointAborted):
        return LineKind.ABORTED, f"checkpoint {event.checkpoint} aborted: {event.reason}"
    if isinstance(event, SubtaskFinished):
        return LineKind.OPERATOR_FINISHED, f"{event.subtask} FINISHED"
    if isinstance(event, SubtaskRestarting) and not event.number:
        return LineKind.SUBTASK_RESTARTING, f"{event.subtask} waits for a worker, the others continue: {event.cause}"
    if isinstance(event, SubtaskRestarting):
        after = f"restarts in {event.delay:g} s ({event.number} of {event.limit}), the others continue"
        return LineKind.SUBTASK_RESTARTING, f"{event.subtask} {after}: {event.cause}"
    if isinstance(event, Reconfigured):
        changed = [f"{uid}: {shown(settings)}" for uid, settings in sorted(event.settings.items())]
        rescaled = {} if event.graph is None else event.graph.rescaled
        changed += [f"{uid} will be read by {count}" for uid, count in rescaled.items()]
        asked = "" if event.by is None else f", asked for by {event.by},"
        message = f"reconfiguration {event.number}{asked} is decided; from here on {'; '.join(changed)}"
        return LineKind.RECONFIGURED, message
    if isinstance(event, ReconfigurationEnded):
        subject = f"reconfiguration {event.number}" if event.number else "the reconfiguration"
        return LineKind.RECONFIGURED, f"{subject}: {event.outcome}"
    if isinstance(event, FilesForgotten):
        files = ", ".join(event.files[:5])
        return (
            LineKind.WARNING,
            f"gave up {counted(len(event.files), 'file')}, whose rows are not in the output: {files}",
        )
    if isinstance(event, SourceFilesChanged):
        return LineKind.CHANGED_FILES, f"source {event.uid}: {changed_files(event)}. {WAY_OUT}"
    if isinstance(event, LateFilesFound):
        outcome = "which the job read" if event.read else "which the job does not read"
        found = f"found {counted(event.total, 'file')} in {event.uid} that came after it was frozen"
        return LineKind.LATE_FILES, f"{found}, {outcome}: {', '.join(event.paths[:5])}"
    return None
