"""End of the wait of a subtask whose worker left without a JobMaster (W7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.leader_monitor import read_master
from airflow_provider_ckpt.remote.mailbox import Outbox, write_outbox
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.triggers.awaited_master import MasterAvailable
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import coordinated, ended, finished, prepared


class Wait:
    """Wait for a JobMaster of deployment 1. The last one had epoch 2."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage, self.journal = storage, coordinated(prepared(Journal(storage, "orders")))
        self.write_heartbeat(7)
        self.available = MasterAvailable(1, 2)

    def write_heartbeat(self, beat: int, *, left: str | None = None) -> None:
        name = f"master-{self.journal.state.epoch:04d}.json"
        write_outbox(self.storage, f"orders/deployments/0001/{name}", Outbox(Worker("here"), beat, left=left))

    def over(self, coordinate: str | None = "deferred") -> WaitResult | None:
        state = self.journal.refresh()
        return self.available.judge(state, read_master(self.storage, state), coordinate)


@pytest.fixture
def wait() -> Iterator[Wait]:
    storage = MemoryStorage(f"comeback-{uuid.uuid4().hex}")
    yield Wait(storage)
    storage.delete_tree("")


def test_an_old_heartbeat_does_not_end_the_wait(wait: Wait) -> None:
    assert [wait.over() for _ in range(50)] == [None] * 50


def test_a_jobmaster_with_a_new_epoch_ends_the_wait(wait: Wait) -> None:
    assert wait.over() is None
    coordinated(wait.journal)
    over = wait.over()
    assert over == WaitResult("the JobMaster of epoch 3 has the job")
    assert WaitResult.from_json(over.to_json()) == over


def test_a_new_heartbeat_in_the_same_epoch_ends_the_wait(wait: Wait) -> None:
    """The triggerer of that JobMaster had stopped, or could not reach the storage."""
    assert wait.over() is None
    wait.write_heartbeat(8)
    over = wait.over()
    assert over is not None
    assert over.reason == "the JobMaster of epoch 2 gives signs of life again"


def test_the_farewell_of_a_jobmaster_does_not_end_the_wait(wait: Wait) -> None:
    assert wait.over() is None
    wait.write_heartbeat(8, left="it was abandoned")
    assert wait.over() is None


def test_the_first_jobmaster_of_a_deployment_ends_the_wait(wait: Wait) -> None:
    """The worker was started before any JobMaster."""
    journal = prepared(wait.journal, "shop.orders.r1~t2.plan")
    wait.available = MasterAvailable(3, 3)
    assert wait.over() is None
    coordinated(journal)
    assert wait.over() == WaitResult("the JobMaster of epoch 4 has the job")


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED", "FAILED", "RESTARTING"])
def test_the_end_of_the_deployment_ends_the_wait(wait: Wait, status: str) -> None:
    ended(wait.journal, status)
    over = wait.over("success")
    assert over == WaitResult(f"the deployment of epoch 1 is over, the job is {status}")


def test_another_deployment_ends_the_wait(wait: Wait) -> None:
    prepared(wait.journal, "shop.orders.r2~t1.plan")
    over = wait.over()
    assert over is not None
    assert "the deployment of epoch 1 is over" in over.reason


def test_a_journal_entry_without_a_claim_does_not_end_the_wait(wait: Wait) -> None:
    """The previous JobMaster wrote entries that the worker had not read."""
    finished(wait.journal, "history/0")
    assert wait.over() is None


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped", "removed", "success"])
def test_an_ended_coordinate_task_ends_the_wait_as_alone(wait: Wait, state: str) -> None:
    over = wait.over(state)
    assert over is not None
    assert over.is_alone
    assert over.reason.endswith(f"is {state}")


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "deferred", "up_for_retry", "restarting"])
def test_an_active_coordinate_task_does_not_end_the_wait(wait: Wait, state: str | None) -> None:
    assert wait.over(state) is None
