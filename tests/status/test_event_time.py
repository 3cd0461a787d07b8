"""Event time in words: which source holds windows, which rows it does not fit. Needs no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, PlanRecorded, SourceDropped
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot, SourceTimes
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.status.event_time_text import held_windows
from airflow_provider_ckpt.status.status_reporter import StatusReporter

NOON = 1_772_020_800.0  # 2026-02-25 12:00:00Z


class Run:
    """A job whose query ``totals`` reads ``clicks`` and ``orders``, and its status lines."""

    def __init__(self, *, bounded: str | None = None, timed: bool = True) -> None:
        self.lines: list[dict[str, Any]] = []
        self._reporter = StatusReporter(lambda line: self.lines.append(line.to_json()), "job", None, "/r")
        self.state = JobState("job", epoch=1)
        self.checkpoints = 0
        ends = () if bounded is None else (bounded,)
        sources = ("clicks", "orders")
        vertex = JobVertex("totals", (*sources, "totals"), sources, ends, ("out",), bounded=False)
        definition = JobDefinition(
            mode="streaming",
            sources={uid: SourceDefinition(uid == bounded, ("ts", "1 second") if timed else None) for uid in sources},
            vertices={"totals": VertexDefinition("append", True, event_time=True)},
            sinks={},
            inputs={"totals": sources},
        )
        self._record(PlanRecorded(JobGraph((vertex,), ()), {}, NOON, definition))

    def release(self, watermark: int | None, at: float = NOON, **times: SourceTimes) -> str:
        """Complete and release a checkpoint; return the line about it."""
        self.checkpoints += 1
        shot = Snapshot(1, self.checkpoints, watermark=watermark, times=times)
        done = {SubtaskId("totals/0"): shot}
        self._record(CheckpointCompleted(self.checkpoints, at, at, "checkpoint", done, {}))
        self._record(CheckpointReleased(self.checkpoints, at, {"out": {"rows": 1}}))
        return str(self.lines[-1]["message"])

    def drop(self, source: str) -> None:
        self._record(SourceDropped("totals", source, 1, NOON))

    def end(self) -> str:
        self._reporter.ended(self.state, JobStatus.FINISHED, None)
        return str(self.lines[-1]["message"])

    def _record(self, event: Any) -> None:
        event.apply(self.state)
        self._reporter.event(event, self.state)


def seen(seconds_before_noon: int, last_row_at: float | None = NOON, **counts: int) -> SourceTimes:
    newest = round((NOON - seconds_before_noon) * 1000)
    return SourceTimes(newest, delay=1_000, last_row_at=last_row_at, **counts)


HOUR_AGO = round((NOON - 3_601) * 1000)
CLICKS, ORDERS = seen(0), seen(3_600, NOON - 720)


def test_a_source_without_rows_that_holds_windows_is_named() -> None:
    run = Run()
    line = run.release(HOUR_AGO, clicks=CLICKS, orders=ORDERS)
    waits = "the windows of totals wait at 2026-02-25 10:59:59Z, because source orders has had no row for 12 min"
    assert line.endswith(f"; {waits}")
    shown = dict(summary(run.state))
    assert shown["event time"] == (
        "totals at 2026-02-25 10:59:59Z (clicks at 2026-02-25 11:59:59Z, last row 2026-02-25 12:00:00Z, "
        "orders at 2026-02-25 10:59:59Z, last row 2026-02-25 11:48:00Z)"
    )
    assert str(shown["waiting"]).startswith("the windows of totals wait at 2026-02-25 10:59:59Z")


def test_a_source_that_never_had_a_row_is_named() -> None:
    line = Run().release(None, clicks=CLICKS)
    assert line.endswith("; the windows of totals wait, because source orders has had no row")
    assert "wait" not in Run(timed=False).release(None, clicks=CLICKS)  # Spark uses the other source alone


@pytest.mark.parametrize(
    ("watermark", "orders"),
    [(HOUR_AGO, seen(3_600, NOON - 30)), (round((NOON - 1) * 1000), ORDERS), (HOUR_AGO, seen(-60, NOON - 720))],
    ids=["has rows", "is idle and does not hold", "is ahead of the other"],
)
def test_a_source_that_holds_no_windows_is_not_named(watermark: int, orders: SourceTimes) -> None:
    assert "wait" not in Run().release(watermark, clicks=CLICKS, orders=orders)


def test_a_query_that_reads_history_waits_for_its_end() -> None:
    run = Run(bounded="orders")
    assert "wait" not in run.release(None, clicks=CLICKS)
    run.drop("orders")
    assert held_windows(run.state, NOON + 3_600) == []


def test_a_query_that_left_the_job_waits_for_no_source() -> None:
    run = Run()
    run.release(None, clicks=CLICKS)
    run.state.plan = None
    assert held_windows(run.state, NOON + 3_600) == []


def test_rows_without_fitting_event_time_are_reported_once_and_at_the_end() -> None:
    run = Run()
    first = run.release(HOUR_AGO, clicks=seen(0, without=2, before_1970=1), orders=seen(0))
    assert "; 2 more rows came without an event time (since the job began: 2 of clicks in totals)" in first
    assert "; 1 more row came before 1970 (since the job began: 1 of clicks in totals)" in first
    assert "more rows" not in run.release(HOUR_AGO, clicks=seen(0, without=2, before_1970=1), orders=seen(0))
    last = run.release(HOUR_AGO, clicks=seen(0, without=2, before_1970=1), orders=seen(0, ahead=3))
    assert "; 3 more rows came further ahead of the clock than max_ahead (since the job began: 3 of orders" in last
    assert "without" not in last
    assert run.lines[-1]["unfit_rows"] == 6
    end = run.end()
    assert "; rows without an event time: 2 of clicks in totals; rows before 1970: 1 of clicks in totals" in end
    assert "; rows further ahead of the clock than max_ahead: 3 of orders in totals" in end
    assert dict(summary(run.state))["unfit rows"] == end.partition("; ")[2]


def test_a_watermark_ahead_of_the_clock_causes_one_warning() -> None:
    run = Run()
    for _ in range(2):
        run.release(round((NOON + 7_200) * 1000), clicks=seen(-7_201), orders=seen(-7_201))
    (warned,) = [line["message"] for line in run.lines if line["kind"] == "warning"]
    assert warned.startswith("the watermark of totals is ahead of the clock, at 2026-02-25 14:00:00Z")
    run = Run()
    run.release(round((NOON + 30) * 1000), clicks=seen(-31), orders=seen(-31))
    assert not [line for line in run.lines if line["kind"] == "warning"]


def test_the_watermark_of_a_drain_causes_no_warning() -> None:
    run = Run()
    run.release(MAX_WATERMARK, clicks=seen(0), orders=seen(0))
    assert not [line for line in run.lines if line["kind"] == "warning"]
