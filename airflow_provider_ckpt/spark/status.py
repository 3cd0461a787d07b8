"""Status lines of a run: what a person watching it, or the Airflow operator, is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    Event,
    LateFilesFound,
    SourceDropped,
    SourceEnded,
    SubtaskFinished,
)
from airflow_provider_ckpt.journal.state import JobState

OnStatus = Callable[[dict[str, Any]], None]


class StatusReporter:
    """Each line is a dict with ``kind``, ``message``, ``job_id``, ``epoch`` and what the kind adds."""

    def __init__(self, on_status: OnStatus, job_id: str, application_id: str | None) -> None:
        self._on_status = on_status
        self._job_id = job_id
        self._application_id = application_id

    def say(self, kind: str, message: str, state: JobState | None = None, **more: Any) -> None:
        line: dict[str, Any] = {"kind": kind, "message": message, "job_id": self._job_id}
        line["application_id"] = self._application_id
        if state is not None:
            line["epoch"] = state.epoch
            line["checkpoint"] = state.last_completed
            line["released"] = state.last_released
            line["finished_operators"] = state.finished_operators()
        self._on_status({**line, **more})

    def started(self, state: JobState, before: str, resumed: bool) -> None:
        if not resumed:
            self.say("started", f"job {self._job_id} starts (epoch {state.epoch})", state)
            return
        skipped = ", ".join(state.finished_operators())
        where = f"from checkpoint {state.last_completed}" if state.last_completed else "before any checkpoint"
        parts = [f"resumed {where}", f"epoch {state.epoch}", f"the driver before: {_BEFORE.get(before, before)}"]
        if skipped:
            parts.insert(1, f"skipped finished operators: {skipped}")
        self.say("resumed", "; ".join(parts), state, driver_before=before)

    def running(self, state: JobState) -> None:
        self.say("running", f"job {self._job_id} is RUNNING", state)

    def event(self, event: Event, state: JobState) -> None:
        told = _describe(event)
        if told is not None:
            kind, message = told
            self.say(kind, message, state)


_BEFORE = {
    "left": "TAKEN OVER FROM, it was running and has left",
    "killed": "TAKEN OVER FROM, it was running, did not leave, and was killed",
    "unreachable": "on another host or an earlier boot, it can write no more",
}


def _describe(event: Event) -> tuple[str, str] | None:
    if isinstance(event, CheckpointCompleted):
        took = round((event.at - event.triggered_at) * 1000)
        what = "" if event.kind == "checkpoint" else f" ({event.kind})"
        return "checkpoint", f"checkpoint {event.checkpoint}{what} completed in {took} ms"
    if isinstance(event, CheckpointReleased):
        rows = sum(int(sink.get("rows", 0)) for sink in event.sinks.values())
        return "released", f"checkpoint {event.checkpoint} released {rows} rows in {len(event.sinks)} sinks"
    if isinstance(event, CheckpointAborted):
        return "aborted", f"checkpoint {event.checkpoint} aborted: {event.reason}"
    if isinstance(event, SourceEnded):
        return "source_ended", f"bounded source {event.uid} has ended with batch {event.batch_id}"
    if isinstance(event, SourceDropped):
        return "source_dropped", f"finished source {event.uid} is left out of the running query"
    if isinstance(event, SubtaskFinished):
        return "operator_finished", f"{event.subtask} FINISHED"
    if isinstance(event, LateFilesFound):
        verb = "was read" if event.read else "is not read"
        named = ", ".join(event.paths[:5])
        return (
            "late_files",
            f"{len(event.paths)} files turned up in {event.uid} after it was frozen, which {verb}: {named}",
        )
    return None
