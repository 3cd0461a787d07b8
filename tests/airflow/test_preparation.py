"""End of the wait of a subtask whose whole run has failed: the job must be prepared again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.triggers.awaited_master import Preparation
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import JOB_ID, coordinated, ended, prepared


@pytest.fixture
def orders() -> Iterator[Journal]:
    """Yield the journal of a run that has failed."""
    storage = MemoryStorage(f"preparation-{uuid.uuid4().hex}")
    yield ended(coordinated(prepared(Journal(storage, JOB_ID))), "RESTARTING")
    storage.delete_tree("")


def over(orders: Journal, coordinate: str | None = "up_for_retry") -> WaitResult | None:
    return Preparation(f"{JOB_ID}~t1.subtask").judge(orders.refresh(), None, coordinate)


def test_the_wait_ends_when_the_job_is_prepared(orders: Journal) -> None:
    assert over(orders) is None
    orders.claim(f"{JOB_ID}~t2.coordinate", Worker(), 6.0)
    assert over(orders, "running") is None, "the planner has only begun"
    prepared(orders, f"{JOB_ID}~t2.coordinate")
    assert over(orders) == WaitResult("the job is prepared, in the deployment of epoch 4")


@pytest.mark.parametrize("status", ["STOPPED", "FAILED", "FINISHED"])
def test_the_end_of_the_job_ends_the_wait(orders: Journal, status: str) -> None:
    ended(orders, status)
    assert over(orders, "success") == WaitResult(f"the job is {status}")


def test_a_claim_by_another_dag_run_ends_the_wait(orders: Journal) -> None:
    orders.claim("shop.orders.r2~t1.plan", Worker(), 6.0)
    assert over(orders) == WaitResult("shop.orders.r2~t1.plan has the job")


def test_a_manual_release_does_not_take_the_job_over(orders: Journal) -> None:
    orders.claim(f"{orders.state.attempt}~release", Worker(), 6.0, releases_only=True)
    assert over(orders) is None


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped", "removed", "success"])
def test_an_ended_coordinate_task_ends_the_wait_for_a_preparation(orders: Journal, state: str) -> None:
    result = over(orders, state)
    assert result is not None
    assert result.is_alone
    assert WaitResult.from_json(result.to_json()) == result
