"""Lines of a run about rows that no sink shows, because windows are open or nothing was read."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointReleased,
    PlanRecorded,
    SinkReleased,
    SourceDropped,
    SourceEnded,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.model.progress import Snapshot, SourceTimes
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.status.status_reporter import StatusReporter

NOON = 1_772_020_800.0  # 2026-02-25 12:00:00Z
HOUR_BEFORE = round((NOON - 3_600) * 1000)
WINDOWS = KeptState("Aggregate", ("window",), (("live",),))
OPEN = (
    "windows of counts that end after 2026-02-25 11:00:00Z are open: a window closes when event time passes its end "
    "(newest row: 2026-02-25 12:00:00Z)"
)

AWAITED = (
    "windows of counts are open until the next row of live comes: rows that were read beside history do not move event "
    "time (newest row: 2026-02-25 12:00:00Z)"
)


class Run:
    """A job whose query ``counts`` reads ``history``, which is bounded, and ``live``."""

    def __init__(self, *kept: KeptState, mode: str = "append", in_order: bool = False) -> None:
        self.lines: list[dict[str, Any]] = []
        self._reporter = StatusReporter(lambda line: self.lines.append(line.to_json()), "job", None, "/r")
        self.state = JobState("job", epoch=1)
        self.number = 0
        sources = ("history", "live")
        vertex = JobVertex("counts", (*sources, "counts"), sources, ("history",), ("lake", "log"), bounded=False)
        definition = JobDefinition(
            mode="streaming",
            sources={"history": SourceDefinition(True, in_order=in_order), "live": SourceDefinition(False)},
            vertices={"counts": VertexDefinition(mode, True, event_time=True, kept=kept or (WINDOWS,))},
            sinks={},
        )
        self.record(PlanRecorded(JobGraph((vertex,), ()), {}, NOON, definition))
        self._reporter.started(self.state, "none", resumed=False)

    def drop_history(self) -> None:
        self.record(SourceDropped("counts", "history", 0, NOON))

    def end_history(self) -> None:
        self.record(SourceEnded("counts", "history", 0, NOON))

    def complete(self, watermark: int | None, *, batch: int | None = 1, finished: bool = False) -> None:
        """Complete a checkpoint after a micro-batch whose newest row is of noon."""
        self.number += 1
        times = {} if batch is None else {"live": SourceTimes(round(NOON * 1000), 3_600_000, NOON)}
        shot = Snapshot(1, batch, watermark=watermark, times=times, finished=finished)
        done = {SubtaskId("counts/0"): shot}
        self.record(CheckpointCompleted(self.number, NOON, NOON + 0.012, "checkpoint", done, {}))

    def release(self, rows: int = 0, after: float = 0.5) -> None:
        self.record(CheckpointReleased(self.number, NOON + after, {"lake": {"rows": rows}}))

    def record(self, event: Any) -> None:
        event.apply(self.state)
        self._reporter.event(event, self.state)

    def end(self, status: JobStatus = JobStatus.STOPPED) -> str:
        """Return the last line of a run that ends with this status."""
        self._reporter.ended(self.state, status, None)
        return str(self.lines[-1]["message"])

    @property
    def shown(self) -> list[str]:
        return [line["message"] for line in self.lines if not line.get("quiet")][1:]


def shown_windows(run: Run) -> str:
    return str(dict(summary(run.state))["open windows"])


def test_the_first_checkpoint_without_rows_names_the_open_windows() -> None:
    run = Run()
    run.drop_history()
    for after in (1.0, 2.0):
        run.complete(HOUR_BEFORE)
        run.release(after=after)
    assert run.shown[1:] == [f"checkpoint 1 released no row: {OPEN}"]
    run.release(after=700.0)
    assert run.shown[2:] == [f"checkpoint 2 released no row: {OPEN}"]
    assert dict(summary(run.state))["open windows"] == OPEN


def test_windows_that_wait_for_history_name_its_source() -> None:
    run = Run()
    run.complete(0)
    run.release()
    assert run.shown == ["checkpoint 1 released no row: windows of counts are open until history is read to its end"]
    run.drop_history()
    run.complete(HOUR_BEFORE)
    run.release(after=1.0)
    assert run.shown[-1] == f"checkpoint 2 released no row: {OPEN}", "the reason is a different one now"


def test_windows_that_only_the_next_live_row_closes_name_its_source() -> None:
    run = Run()
    run.end_history()
    run.complete(0, batch=0)
    run.release()
    assert run.shown[-1] == f"checkpoint 1 released no row: {AWAITED}"
    run.drop_history()
    run.complete(0, batch=0)
    run.release(after=700.0)
    assert run.shown[-1] == f"checkpoint 2 released no row: {AWAITED}"
    assert dict(summary(run.state))["open windows"] == AWAITED
    run.complete(0, batch=1)
    assert "when event time passes its end" in shown_windows(run), "a live row has come"


def test_windows_of_a_query_without_history_await_no_row() -> None:
    run = Run(in_order=True)
    run.complete(0, batch=0)
    assert "when event time passes its end" in shown_windows(run)


def test_windows_of_history_in_order_do_not_wait_for_its_end() -> None:
    run = Run(in_order=True)
    run.complete(HOUR_BEFORE)
    run.release()
    assert run.shown == [f"checkpoint 1 released no row: {OPEN}"]


def test_the_last_line_of_a_run_without_a_row_names_the_reason() -> None:
    run = Run()
    run.drop_history()
    run.complete(HOUR_BEFORE)
    run.release()
    assert run.end().endswith(f"; this run released no row: {OPEN}")


def test_the_last_line_of_a_run_names_the_windows_that_it_leaves_open() -> None:
    run = Run()
    run.drop_history()
    run.complete(HOUR_BEFORE)
    run.release(rows=3)
    assert run.end().endswith(f"; {OPEN}")
    assert "no row" not in run.end()


@pytest.mark.parametrize(
    ("kept", "mode", "watermark", "finished"),
    [
        (KeptState("Deduplicate", ("id",), (("live",),)), "append", HOUR_BEFORE, False),
        (WINDOWS, "update", HOUR_BEFORE, False),
        (WINDOWS, "append", MAX_WATERMARK, False),
        (WINDOWS, "append", HOUR_BEFORE, True),
    ],
    ids=["keeps no window", "gives each change", "a drain", "at its end"],
)
def test_other_queries_have_no_open_windows(kept: KeptState, mode: str, watermark: int, finished: bool) -> None:
    run = Run(kept, mode=mode)
    run.drop_history()
    run.complete(watermark, finished=finished)
    run.release()
    assert run.shown[1:] == []
    assert run.end(JobStatus.FINISHED) == "job job FINISHED; this run released no row: no query gave a row"
    assert dict(summary(run.state))["open windows"] == ""


def test_the_last_line_of_a_run_that_read_nothing_says_so() -> None:
    run = Run()
    run.drop_history()
    run.complete(None, batch=None)
    run.release()
    why = "no micro-batch ended: there was nothing new to read, or the run was too short"
    assert run.end(JobStatus.FINISHED) == f"job job FINISHED; this run released no row: {why}"


def test_the_last_line_of_a_run_without_a_checkpoint_says_so() -> None:
    assert Run().end(JobStatus.FINISHED) == "job job FINISHED; this run released no row: no checkpoint completed"


@pytest.mark.parametrize(
    ("released", "progress"),
    [(0, "another sink has released no checkpoint so far"), (1, "another sink has released only up to checkpoint 1")],
)
def test_the_line_of_a_sink_that_is_ahead_names_the_others_progress(released: int, progress: str) -> None:
    run = Run()
    for _ in range(released + 2):
        run.complete(HOUR_BEFORE)
    if released:
        run.record(CheckpointReleased(1, NOON, {"lake": {"rows": 1}, "log": {"rows": 1}}))
    run.record(SinkReleased("lake", run.number, NOON, {"rows": 1}))
    assert run.shown[-1] == f"lake released 1 row, up to checkpoint {run.number}; {progress}"
