"""The overview that a client gets: how old it may be, and what it says when the driver is gone or silent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.overview import DRIVER_GONE, DRIVER_SILENT, FRESH, current_overview
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.status.job_overview import LATE, UNCHANGED, JobOverview, write_overview
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.processes import process_started
from airflow_provider_ckpt.storage.storage import Storage
from tests.status.test_job_overview import overview_of_running_job, running_job

STORED = overview_of_running_job()


@pytest.fixture
def root(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path)
    write_overview(storage, STORED)
    return storage


def overview_after(root: Storage, seconds: float, state: JobState, *, read: bool = True) -> JobOverview:
    """Return the overview some seconds after the driver wrote its last one. ``read``: the caller knows the state."""

    def read_state() -> JobState:
        assert read, "the journal is read"
        return state

    return current_overview(root, "orders", read_state, state if read else None, clock=lambda: STORED.at + seconds)


def test_a_new_overview_of_a_running_job_costs_one_request(root: Storage) -> None:
    assert overview_after(root, FRESH, running_job(), read=False) == STORED
    assert overview_after(root, -FRESH, running_job(), read=False) == STORED, "the clocks of two hosts differ"


def test_a_failing_sink_is_shown_while_nothing_else_changes(root: Storage) -> None:
    """The driver writes an unchanged overview once a minute."""
    shown = overview_after(root, STORED.interval + UNCHANGED + LATE, running_job())
    assert shown == STORED
    assert any(problem.subject == "shop" and problem.severity == "error" for problem in shown.problems)


def test_a_driver_that_writes_no_overview_is_named(root: Storage) -> None:
    shown = overview_after(root, STORED.interval + UNCHANGED + LATE + 1, running_job())
    assert DRIVER_SILENT in shown.problems
    assert shown.sources[0].done == STORED.sources[0].done


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_journal_that_has_moved_on_overrules_a_new_overview(root: Storage, epoch: int) -> None:
    """The job failed, or a later driver has it, since the overview was written."""
    state = running_job()
    state.epoch, state.status = epoch, JobStatus.FAILED if epoch == 1 else JobStatus.RUNNING
    shown = overview_after(root, 1.0, state)
    assert (shown.status, shown.epoch) == (state.status, epoch)
    assert shown.sources[0].rows == (STORED.sources[0].rows if epoch == 1 else None)


def test_a_killed_driver_is_named_at_once(root: Storage) -> None:
    state = running_job()
    state.worker = dead_process()
    assert overview_after(root, 1.0, state).problems[0] == DRIVER_GONE


def dead_process() -> Worker:
    """Return the identity of a process of this host that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        worker = replace(identify(), pid=process.pid, started=process_started(process.pid))
        process.kill()
    return worker
