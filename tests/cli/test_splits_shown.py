"""Progress of a source with splits, in texts and in JSON."""

from __future__ import annotations

from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from tests.journal.samples import of_splits
from tests.support.definitions import STREAMING

HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, splits=True)


def state() -> JobState:
    job_state = JobState("orders")
    for event in [ev.PlanRecorded(JobGraph((HISTORY,), ()), {}, 0.0, STREAMING), *of_splits()]:
        event.apply(job_state)
    return job_state


def test_show_prints_the_split_progress() -> None:
    assert dict(summary(state()))["splits"] == "history: 2 of 10 done, 4 assigned, 4 left"
    assert job_view(state(), None)["splits"] == [
        {"source": "history", "total": 10, "done": 2, "assigned": 4, "left": 4}
    ]


def test_show_prints_the_parallelism_of_a_rescaled_source() -> None:
    rescaled = state()
    change = ev.GraphChange(JobGraph((HISTORY,), ()).rescaled({"history": 8}), {"history": 8})
    ev.Reconfigured(1, {}, 9.0, change).apply(rescaled)
    assert str(dict(summary(rescaled))["splits"]).endswith("4 left, rescaled to 8")
    assert job_view(rescaled, None)["rescaled"] == {"history": 8}
    assert job_view(state(), None)["rescaled"] == {}


def test_a_status_line_reports_a_rescale() -> None:
    lines: list[StatusLine] = []
    reporter = StatusReporter(lines.append, "orders", None, "/r")
    change = ev.GraphChange(JobGraph((HISTORY,), ()), {"history": 8})
    reporter.event(ev.Reconfigured(1, {}, 9.0, change), state())
    expected = "reconfiguration 1 is decided; from here on history will be read by 8"
    assert (lines[-1].kind, lines[-1].message) == ("reconfigured", expected)


def test_show_prints_no_split_progress_without_splits() -> None:
    assert dict(summary(JobState("orders")))["splits"] == ""


def test_a_release_line_has_the_progress_while_splits_are_left() -> None:
    lines: list[StatusLine] = []
    reporter = StatusReporter(lines.append, "orders", None, "/r")
    reporter.event(ev.CheckpointReleased(2, 5.0, {"lake": {"rows": 7}}), state())
    assert lines[-1].message == "checkpoint 2 released 7 rows; history: 2 of 10 splits"
