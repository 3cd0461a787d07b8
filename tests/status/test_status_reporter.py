"""Reports of a run, as people and programs read them. Needs no Spark."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    PlanRecorded,
    SourceDropped,
    SourceEnded,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.status.status_reporter import IDLE_SECONDS, StatusReporter
from tests.support.definitions import STREAMING


class Run:
    """Reporter that is notified of a checkpoint every 30 seconds."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._reporter = StatusReporter(lambda line: self.lines.append(line.to_json()), "orders", None, "/r")
        self.state = JobState("orders", epoch=1)
        self.now = 1000.0

    def checkpoint(self, number: int, sinks: dict[str, dict[str, int]], kind: CheckpointKind = "checkpoint") -> None:
        self.now += 30
        self._record(CheckpointCompleted(number, self.now - 0.012, self.now, kind, {}, {}))
        self._record(CheckpointReleased(number, self.now + 0.5, sinks))

    def abort(self, number: int) -> None:
        self._record(CheckpointAborted(number, "CHECKPOINT_EXPIRED", self.now))

    def plan(self) -> None:
        """Record two vertices: ``clean`` reads ``history``, which is bounded."""
        vertices = (
            JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True),
            JobVertex("clean", ("clean",), (), (), ("lake",), bounded=False),
        )
        graph = JobGraph(vertices, (JobEdge("history__clean", "history", "clean", "clean"),))
        PlanRecorded(graph, {}, 1000.0, STREAMING).apply(self.state)

    def source_ended(self, vertex: str, uid: str, batch_id: int) -> None:
        self._record(SourceEnded(vertex, uid, batch_id, self.now))

    def source_dropped(self, vertex: str, uid: str) -> None:
        self._record(SourceDropped(vertex, uid, 3, self.now))

    def end(self, status: JobStatus) -> str:
        """Return the last line of a run that ends with this status."""
        self._reporter.ended(self.state, status, None)
        return str(self.lines[-1]["message"])

    def _record(self, event: Any) -> None:
        event.apply(self.state)
        self._reporter.event(event, self.state)

    @property
    def shown(self) -> list[str]:
        return [line["message"] for line in self.lines if not line.get("quiet")]


def test_a_checkpoint_with_rows_is_reported_in_one_line() -> None:
    run = Run()
    run.checkpoint(12, {"lake": {"rows": 340, "files": 2}, "log": {"rows": 0, "files": 0}})
    run.checkpoint(13, {"lake": {"rows": 2, "files": 1}}, kind="savepoint")
    assert run.shown == [
        "checkpoint 12 released 340 rows (12 ms)",
        "savepoint checkpoint 13 released 2 rows (12 ms)",
    ]


def test_a_checkpoint_without_rows_is_quiet() -> None:
    run = Run()
    run.checkpoint(1, {"lake": {"rows": 0, "files": 0, "bytes": 0}})
    assert run.shown == []
    assert [(line["kind"], line["checkpoint"], line["released"]) for line in run.lines] == [
        ("checkpoint", 1, 0),
        ("released", 1, 1),
    ]


def test_an_idle_job_reports_every_ten_minutes() -> None:
    run = Run()
    for number in range(1, 1 + 3 * int(IDLE_SECONDS // 30) + 1):
        run.checkpoint(number, {"lake": {"rows": 0}})
    assert run.shown == [f"checkpoint {number} released nothing new" for number in (21, 41, 61)]


def test_a_clock_that_was_set_back_does_not_silence_the_job() -> None:
    run = Run()
    run.checkpoint(1, {"lake": {"rows": 1}})
    run.now -= 7200
    run.checkpoint(2, {"lake": {"rows": 0}})
    assert run.shown[-1] == "checkpoint 2 released nothing new"


def test_a_sink_that_counts_no_rows_is_reported_by_its_own_counts() -> None:
    run = Run()
    run.checkpoint(1, {"topic": {"messages": 3}})
    run.checkpoint(2, {"topic": {"messages": 0}})
    assert run.shown == ["checkpoint 1 released (12 ms)"]


def test_an_aborted_checkpoint_is_always_shown() -> None:
    run = Run()
    run.abort(3)
    assert run.shown == ["checkpoint 3 aborted: CHECKPOINT_EXPIRED"]


def test_a_long_error_is_reported_by_its_cause_with_its_traceback() -> None:
    lines: list[dict[str, Any]] = []
    text = 'job j FAILED: Traceback (most recent call last):\n  File "/a.py", line 3, in g\n    y\nKeyError: 1\n'
    StatusReporter(lambda line: lines.append(line.to_json()), "j", None, "/r").report(
        LineKind.FAILED, text, terminal=False
    )
    assert (lines[0]["message"], lines[0]["traceback"]) == ("KeyError: 1 (/a.py:3). Job j FAILED", text)


def test_the_last_line_of_a_stop_names_unread_and_unreleased_data() -> None:
    run = Run()
    run.plan()
    run.checkpoint(1, {"lake": {"rows": 0}})
    assert run.end(JobStatus.STOPPED) == (
        "job orders STOPPED; not read to the end: history; the next run reads the rest; this run released no row: "
        "no micro-batch ended: there was nothing new to read, or the run was too short"
    )
    run.checkpoint(2, {"lake": {"rows": 7}})
    run.source_ended("history", "history", 4)
    assert run.end(JobStatus.STOPPED) == "job orders STOPPED"
    run.state.last_completed = 3
    assert run.end(JobStatus.STOPPED) == "job orders STOPPED; checkpoint 3 is not released in every sink"


def test_a_run_with_a_sink_that_counts_no_rows_is_not_called_empty() -> None:
    run = Run()
    run.checkpoint(1, {"lake": {"rows": 0}, "own": {"bytes": 12}})
    assert run.end(JobStatus.FINISHED) == "job orders FINISHED"


def test_an_input_that_has_ended_is_named_by_its_operators() -> None:
    run = Run()
    run.plan()
    run.source_ended("history", "history", -1)
    run.source_ended("clean", "history__clean", 3)
    run.source_dropped("clean", "history__clean")
    assert run.shown == [
        "bounded source history has ended before the first batch",
        "clean has read all of history (with batch 3)",
        "finished source history is left out of the running query",
    ]
