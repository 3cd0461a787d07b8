"""Statuses of a job."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ckpt.model.job_status import JobStatus


@pytest.mark.parametrize("status", JobStatus)
def test_a_status_is_alive_or_resumable_or_terminal(status: JobStatus) -> None:
    assert [status.is_alive, status.is_resumable, status.is_terminal].count(True) == 1


def named(predicate: str) -> set[str]:
    return {status.value for status in JobStatus if getattr(status, predicate)}


@pytest.mark.parametrize(
    ("predicate", "statuses"),
    [
        ("is_alive", {"CREATED", "RUNNING"}),
        ("is_resumable", {"RESTARTING", "STOPPED"}),
        ("is_terminal", {"FINISHED", "FAILED", "DELETING", "DELETED"}),
        ("is_deleted", {"DELETING", "DELETED"}),
        ("has_ended", {"FINISHED", "STOPPED", "FAILED", "DELETING", "DELETED"}),
        ("ended_well", {"FINISHED", "STOPPED"}),
    ],
)
def test_each_predicate_holds_for_its_statuses(predicate: str, statuses: set[str]) -> None:
    assert named(predicate) == statuses


@pytest.mark.parametrize("status", JobStatus)
def test_a_status_is_written_as_its_name(status: JobStatus) -> None:
    assert (str(status), f"{status}", f"{status:10}", json.dumps([status])) == (
        status.name,
        status.name,
        status.name.ljust(10),
        f'["{status.name}"]',
    )
    assert JobStatus(json.loads(json.dumps(status))) is status
