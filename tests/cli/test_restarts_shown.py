"""Automatic restarts of subtasks in `ckpt show`."""

from __future__ import annotations

from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.journal.state import JobState
from tests.journal.samples import of_restarts


def test_show_counts_the_restarts_of_each_subtask() -> None:
    state = JobState("orders")
    assert dict(summary(state))["restarts"] == ""
    for event in of_restarts():
        event.apply(state)
    assert dict(summary(state))["restarts"] == "clean/0 2, history/1 1"
    assert job_view(state, None)["restarts"] == {"clean/0": 2, "history/1": 1}
