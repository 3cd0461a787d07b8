"""Names of a group's attempts in the journal, and which of its tasks may stop the job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.job_request import asks_to_exit
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.group_attempt import ask_to_stop, is_of_group, is_twin_of
from tests.airflow.group_journal import JOB_ID, coordinated, ended, prepared

MINE = f"{JOB_ID}~t2.coordinate"


@pytest.mark.parametrize(
    ("attempt", "of_group", "twin"),
    [
        (MINE, True, True),
        (f"{JOB_ID}~t1.coordinate", True, True),
        (f"{JOB_ID}~t3.coordinate", True, False),
        (f"{JOB_ID}~t10.coordinate", True, False),
        (f"{JOB_ID}~t1.plan", True, False),
        ("shop.orders.r2~t1.coordinate", False, False),
        ("ckpt-run-7", False, False),
        ("", False, False),
    ],
)
def test_only_claims_of_the_same_or_an_earlier_try_are_twins(attempt: str, of_group: bool, twin: bool) -> None:
    assert (is_of_group(MINE, attempt), is_twin_of(MINE, attempt)) == (of_group, twin)


@pytest.mark.parametrize("name", ["by hand", "by~hand"])
def test_an_attempt_outside_a_group_is_only_its_own_twin(name: str) -> None:
    assert is_twin_of(name, name)
    assert not is_twin_of(name, MINE)


def test_a_stop_request_waits_for_the_claim(journal: Callable[[str], Journal], root: Storage) -> None:
    orders, client = prepared(journal(JOB_ID)), JobClient(root, JOB_ID)
    assert not ask_to_stop(client, MINE)
    assert pending_requests(root, JOB_ID, orders.state.epoch, {}) == []
    coordinated(orders, MINE)
    assert ask_to_stop(client, MINE)
    (request,) = pending_requests(root, JOB_ID, orders.state.epoch, {})
    assert asks_to_exit(request)


@pytest.mark.parametrize(("attempt", "status"), [("by hand", None), (MINE, "FINISHED"), (MINE, "STOPPED")])
def test_an_ended_or_foreign_job_gets_no_stop_request(
    journal: Callable[[str], Journal], root: Storage, attempt: str, status: str | None
) -> None:
    orders = coordinated(prepared(journal(JOB_ID)), attempt)
    if status is not None:
        ended(orders, status)
    assert ask_to_stop(JobClient(root, JOB_ID), MINE)
    assert pending_requests(root, JOB_ID, orders.state.epoch, {}) == []
