"""``ckpt stop`` and ``ckpt drain``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import PlanRecorded, RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.cli.conftest import NOON, claim
from tests.support.definitions import STREAMING
from tests.support.journals import write_events
from tests.support.waiting import wait_until

parse_outcome = RequestOutcome.parse


@pytest.fixture
def storage(empty_root: str) -> Storage:
    return open_storage(empty_root)


@pytest.mark.parametrize("kind", ["stop", "drain"])
def test_a_request_reaches_the_driver_of_the_current_epoch(
    kind: str, running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([kind, "orders", "--root", empty_root]) == 0
    (request,) = pending_requests(storage, "orders", 1, ())
    assert request.kind == kind
    assert request.name in capsys.readouterr().out
    assert pending_requests(storage, "orders", 2, ()) == []


@pytest.mark.parametrize("kind", ["stop", "drain"])
def test_a_request_reaches_a_driver_that_has_only_claimed_the_job(kind: str, empty_root: str, storage: Storage) -> None:
    """This is the first run, before its JobCreated is written."""
    claim(empty_root)
    assert main([kind, "orders", "--root", empty_root]) == 0
    assert [request.kind for request in pending_requests(storage, "orders", 1, ())] == [kind]


@pytest.mark.parametrize(
    ("kind", "status", "advice"),
    [
        ("stop", "FAILED", "run the job with --resume-failed"),
        ("stop", "RESTARTING", "there is nothing to stop; its next run resumes it"),
        ("drain", "STOPPED", "Run the job with --drain-after 0 (in Airflow drain_after=0)"),
        ("drain", "RESTARTING", "Run the job with --drain-after 0"),
        ("drain", "FAILED", "run the job with --resume-failed"),
    ],
)
def test_a_request_to_a_job_that_does_not_run_is_refused_with_advice(
    kind: str, status: str, advice: str, running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(running, StatusChanged(JobStatus(status), NOON))
    assert main([kind, "orders", "--root", empty_root]) == 2
    err = capsys.readouterr().err
    assert f"its status is {status}, no driver would answer" in err
    assert advice in err
    assert not Path(empty_root, "orders", "requests").exists()


@pytest.mark.parametrize(("kind", "status"), [("stop", "STOPPED"), ("stop", "FINISHED"), ("drain", "FINISHED")])
def test_a_job_that_already_ended_as_requested_needs_no_request(
    kind: str, status: str, running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that stops a job before a deployment may run twice."""
    write_events(running, StatusChanged(JobStatus(status), NOON))
    assert main([kind, "orders", "--root", empty_root, "--wait"]) == 0
    assert capsys.readouterr().out == f"job orders is {status}: there is nothing to {kind}\n"
    assert not Path(empty_root, "orders", "requests").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "status", "outcome", "code"),
    [
        ("stop", "STOPPED", "completed: savepoint 4 is released", 0),
        ("stop", "FINISHED", "completed: the job has FINISHED", 0),
        ("stop", "RESTARTING", "failed: the stop did not take place: v/0: boom", 1),
        ("drain", "FINISHED", "completed: the job has FINISHED", 0),
        ("drain", "STOPPED", "failed: the job was stopped before it was drained", 1),
        ("drain", "RESTARTING", "failed: v/0: boom; the next run continues the drain", 1),
    ],
)
def test_the_exit_code_reports_the_outcome(
    kind: str,
    status: str,
    outcome: str,
    code: int,
    running: Journal,
    empty_root: str,
    storage: Storage,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def drive() -> None:
        (request,) = wait_until(lambda: pending_requests(storage, "orders", 1, ()), "the request")
        write_events(
            running,
            RequestAnswered(request.name, kind, parse_outcome(outcome), NOON),
            StatusChanged(JobStatus(status), NOON),
        )

    driver = Thread(target=drive)
    driver.start()
    assert main([kind, "orders", "--root", empty_root, "--wait"]) == code
    driver.join(60)
    assert f"{kind} {outcome}" in capsys.readouterr().out


def test_a_bad_timeout_is_refused_before_the_request(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drain", "orders", "--root", empty_root, "--wait", "--timeout", "soon"]) == 2
    assert "soon" in capsys.readouterr().err
    assert not Path(empty_root, "orders", "requests").exists()


def test_a_job_whose_driver_is_gone_cannot_be_stopped(
    storage: Storage, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No driver would read the request. ``ckpt show`` uses the same check."""
    journal = Journal(storage, "orders")
    journal.claim("t", replace(identify(), pid=os.getpid(), started="0"), NOON)
    write_events(journal, StatusChanged(JobStatus.RUNNING, NOON))
    assert main(["stop", "orders", "--root", empty_root]) == 2
    assert "its driver is gone" in capsys.readouterr().err
    assert storage.list("orders/requests") == []


# ---- ckpt rescale


HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)


def by_split(journal: Journal) -> None:
    write_events(journal, PlanRecorded(JobGraph((HISTORY,), ()), {}, NOON, STREAMING))


def test_a_rescale_reaches_the_driver(
    running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    by_split(running)
    assert main(["rescale", "orders", "history=8", "--root", empty_root]) == 0
    (request,) = pending_requests(storage, "orders", 1, ())
    changes = {"history": VertexSettings(parallelism=8)}
    assert request == ReconfigureRequest(changes, name=request.name, epoch=1, at=request.at)
    assert f"asked epoch 1 of job orders to rescale (request {request.name})" in capsys.readouterr().out


@pytest.mark.parametrize(
    "scale", ["history", "=8", "history=", "history=many", "history=-1", "history=" + "9" * 5000, "history=0", "live=2"]
)
def test_an_empty_or_impossible_rescale_is_refused(
    scale: str, running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    by_split(running)
    assert main(["rescale", "orders", scale, "--root", empty_root]) == 2
    assert "history" in capsys.readouterr().err
    assert pending_requests(storage, "orders", 1, ()) == []
