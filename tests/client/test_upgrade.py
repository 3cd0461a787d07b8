"""Requests to upgrade a running job, sent from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.errors import RequestRefusedError, RequestUnansweredError
from airflow_provider_ckpt.job.errors import JobReferenceError
from airflow_provider_ckpt.jobmaster.retention.garbage_search import superseded_files
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.storage.opening import open_storage
from tests.client.running_job import DEFINITION, GRAPH

ACCEPTED, DONE = RequestOutcome.parse("accepted"), RequestOutcome.completed("the job runs as v2.py:job")


@pytest.fixture
def client(tmp_path: Path) -> JobClient:
    return JobClient(str(tmp_path), "orders")


def upgraded(driver: Journal, tmp_path: Path) -> Journal:
    """Claim the job as the same driver would, one epoch later."""
    later = Journal(open_storage(str(tmp_path)), "orders")
    later.claim("t", identify(), 2.0, upgrades=1)
    return later


def answer(journal: Journal, name: str, outcome: RequestOutcome) -> None:
    journal.write(ev.RequestAnswered(name, "upgrade", outcome, 3.0))
    journal.flush()


def test_an_upgrade_request_names_the_new_version(client: JobClient, driver: Journal, tmp_path: Path) -> None:
    asked = client.upgrade("v2.py:job", allow_non_restored_state=True)
    (request,) = pending_requests(open_storage(str(tmp_path)), "orders", 1, ())
    assert request == asked
    assert asked == UpgradeRequest("v2.py:job", True, name=asked.name, epoch=1, at=asked.at)
    assert not asked.ends_job
    assert client.changes_in_progress() == [asked]
    assert client.upgrade().kind == "upgrade"


def test_an_upgrade_is_answered_in_the_driver_s_next_epoch(client: JobClient, driver: Journal, tmp_path: Path) -> None:
    asked = client.upgrade("v2.py:job")
    answer(driver, asked.name, ACCEPTED)
    later = upgraded(driver, tmp_path)
    with pytest.raises(RequestUnansweredError, match="not run as the other version"):
        client.answer(asked, 0.0)
    assert client.changes_in_progress() == [asked]
    answer(later, asked.name, DONE)
    answered = client.answer(asked, 0.0)
    assert (answered.is_served, answered.outcome) == (True, DONE)
    assert client.changes_in_progress() == []


def test_a_stop_requested_during_an_upgrade_is_kept(client: JobClient, driver: Journal, tmp_path: Path) -> None:
    asked = client.stop(epoch=1, exit_if_it_fails=True)
    later = upgraded(driver, tmp_path)
    later.write(ev.StatusChanged(JobStatus.RUNNING, 2.5))
    assert client.is_asked_to_leave(2)
    assert list(superseded_files(open_storage(str(tmp_path)), client.state())) == []
    later.write(ev.RequestAnswered(asked.name, "stop", RequestOutcome.completed("savepoint 2 is released"), 3.0))
    later.write(ev.StatusChanged(JobStatus.STOPPED, 3.0))
    assert client.answer(asked, 0.0).is_served


def test_another_driver_does_not_answer_the_upgrade(client: JobClient, driver: Journal, tmp_path: Path) -> None:
    asked = client.upgrade("v2.py:job")
    answer(driver, asked.name, ACCEPTED)
    other = Journal(open_storage(str(tmp_path)), "orders")
    other.claim("t2", identify(), 2.0)
    with pytest.raises(RequestUnansweredError, match="asked to upgrade"):
        client.answer(asked, 0.0)


def test_a_failed_or_unconfirmed_upgrade_is_not_served(client: JobClient, driver: Journal) -> None:
    asked = client.upgrade("v2.py:job")
    answer(driver, asked.name, RequestOutcome.failed("SyntaxError; the job continues unchanged"))
    answered = client.answer(asked, 0.0)
    assert not answered.is_served
    asked = client.upgrade("v2.py:job")
    answer(driver, asked.name, ACCEPTED)
    driver.write(ev.StatusChanged(JobStatus.FAILED, 4.0, "boom"))
    assert not client.answer(asked, 0.0).is_served, "nobody has said that it took place"


def test_an_impossible_upgrade_is_refused_before_it_is_written(
    client: JobClient, driver: Journal, tmp_path: Path
) -> None:
    with pytest.raises(JobReferenceError, match="well-formed"):
        client.upgrade("v2.py")
    driver.write(ev.PlanRecorded(GRAPH, {}, 1.0, replace(DEFINITION, mode="batch")))
    with pytest.raises(RequestRefusedError, match="batch mode"):
        client.upgrade("v2.py:job")
    driver.write(ev.PlanRecorded(GRAPH, {}, 1.0, DEFINITION))
    driver.write(ev.DeploymentPrepared(1, 2.0))
    with pytest.raises(RequestRefusedError, match="workers run it"):
        client.upgrade("v2.py:job")
    driver.write(ev.StatusChanged(JobStatus.FAILED, 4.0, "boom"))
    with pytest.raises(RequestRefusedError, match="no driver would answer"):
        client.upgrade("v2.py:job")
    assert pending_requests(open_storage(str(tmp_path)), "orders", 1, ()) == []


def test_a_reconfiguration_after_an_upgrade_uses_the_current_epoch(
    client: JobClient, driver: Journal, tmp_path: Path
) -> None:
    upgraded(driver, tmp_path)
    assert client.reconfigure(Reconfiguration().assign_resources("daily", pool_weight=2)).epoch == 2
