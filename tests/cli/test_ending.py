"""``ckpt stop`` and ``ckpt drain``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.errors import JobNotEndedError, RequestOvertakenError
from airflow_provider_ckpt.cli.reading import read_job
from airflow_provider_ckpt.cli.request import is_served, wait_for_end
from airflow_provider_ckpt.journal.events import CheckpointReleased, RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.requests import pending_requests
from airflow_provider_ckpt.journal.worker import identify
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.cli.conftest import NOON, claim, write
from tests.support.waiting import wait_until


class Clock:
    """Time that passes when somebody sleeps; ``then`` happens at the second sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps = 0
        self.then: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        if self.sleeps == 2:
            self.then()


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


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED", "FAILED", "RESTARTING"])
def test_a_job_that_does_not_run_cannot_be_stopped(
    status: str, running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(running, StatusChanged(status, NOON))
    assert main(["stop", "orders", "--root", empty_root]) == 2
    assert status in capsys.readouterr().err
    assert not Path(empty_root, "orders", "requests").exists()


def test_waiting_ends_when_the_job_has_ended(running: Journal, storage: Storage) -> None:
    clock = Clock()
    clock.then = lambda: write(
        running,
        CheckpointReleased(3, NOON),
        RequestAnswered("r", "stop", "stopped", NOON),
        StatusChanged("STOPPED", NOON),
    )
    asked = read_job(storage, "orders")
    ended = wait_for_end(storage, asked, "r", "stop", 60.0, clock=clock, sleep=clock.sleep)
    assert (ended.status, ended.last_released, clock.sleeps) == ("STOPPED", 3, 2)


@pytest.mark.parametrize("outcome", ["failed: no savepoint within 60 s; the job goes on", "refused: batch"])
def test_waiting_ends_when_the_stop_failed_and_the_job_goes_on(
    outcome: str, running: Journal, storage: Storage
) -> None:
    clock = Clock()
    write(running, RequestAnswered("r", "stop", "accepted", NOON))
    clock.then = lambda: write(running, RequestAnswered("r", "stop", outcome, NOON))
    ended = wait_for_end(storage, read_job(storage, "orders"), "r", "stop", 60.0, clock=clock, sleep=clock.sleep)
    assert (ended.status, ended.outcomes["r"], clock.sleeps) == ("RUNNING", outcome, 2)
    assert not is_served(ended, "r", "stop")


@pytest.mark.parametrize(
    ("kind", "status", "outcome", "code"),
    [
        ("stop", "STOPPED", "completed: savepoint 4 is released", 0),
        ("stop", "FINISHED", "completed: the job has FINISHED", 0),
        ("stop", "RESTARTING", "failed: the stop did not take place: v/0: boom", 1),
        ("drain", "FINISHED", "completed: the job has FINISHED", 0),
        ("drain", "STOPPED", "failed: the job was stopped before it was drained", 1),
        ("drain", "RESTARTING", "failed: v/0: boom; the next run goes on draining", 1),
    ],
)
def test_the_exit_code_says_whether_it_took_place(
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
        write(running, RequestAnswered(request.name, kind, outcome, NOON), StatusChanged(status, NOON))

    driver = Thread(target=drive)
    driver.start()
    assert main([kind, "orders", "--root", empty_root, "--wait"]) == code
    driver.join(60)
    assert f"{kind} {outcome}" in capsys.readouterr().out


def test_an_answer_of_an_earlier_release_is_judged_by_the_status(running: Journal, storage: Storage) -> None:
    write(running, RequestAnswered("r", "stop", "accepted", NOON), StatusChanged("STOPPED", NOON))
    state = read_job(storage, "orders")
    assert is_served(state, "r", "stop")
    assert not is_served(state, "r", "drain")


def test_waiting_for_a_driver_that_is_gone_ends_with_the_timeout(running: Journal, storage: Storage) -> None:
    clock = Clock()
    with pytest.raises(JobNotEndedError, match="has not answered") as raised:
        wait_for_end(storage, read_job(storage, "orders"), "r", "stop", 3.0, clock=clock, sleep=clock.sleep)
    assert raised.value.retryable
    assert 3.0 <= clock.now <= 3.5


def test_r22_waiting_ends_when_another_driver_took_the_job(running: Journal, storage: Storage, empty_root: str) -> None:
    clock = Clock()
    clock.then = lambda: claim(empty_root)
    with pytest.raises(RequestOvertakenError, match="epoch 2"):
        wait_for_end(storage, read_job(storage, "orders"), "r", "drain", 60.0, clock=clock, sleep=clock.sleep)


def test_a_bad_timeout_is_refused_before_anything_is_asked(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drain", "orders", "--root", empty_root, "--wait", "--timeout", "soon"]) == 2
    assert "soon" in capsys.readouterr().err
    assert not Path(empty_root, "orders", "requests").exists()


def test_a_job_whose_driver_is_gone_cannot_be_stopped(
    storage: Storage, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``ckpt show`` knows it: nobody would take the request."""
    journal = Journal(storage, "orders")
    journal.claim("t", {**identify(), "pid": os.getpid(), "started": "0"}, NOON)
    write(journal, StatusChanged("RUNNING", NOON))
    assert main(["stop", "orders", "--root", empty_root]) == 2
    assert "its driver is gone" in capsys.readouterr().err
    assert storage.list("orders/requests") == []
