"""Liveness of a JobMaster that has overtaken another one of the same name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.leader_monitor import LeaderMonitor, Owner
from airflow_provider_ckpt.remote.mailbox import Outbox, write_outbox
from airflow_provider_ckpt.storage.memory import MemoryStorage
from tests.airflow.group_journal import prepared

JOB_ID = "shop.orders.r1~t1.coordinate"
FIRST = Outbox(Worker("here"), 7)


class Twin:
    """The JobMaster that owns the job. ``now``: the clock of the watch."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage, self.journal, self.now = storage, Journal(storage, "orders"), 0.0
        prepared(self.journal)
        self.claim(JOB_ID)

    def claim(self, name: str) -> None:
        self.journal.claim(name, Worker(), 3.0, deployment=1)

    def write(self, outbox: Outbox) -> None:
        write_outbox(self.storage, f"orders/deployments/0001/master-{self.journal.state.epoch:04d}.json", outbox)

    def watch(self) -> LeaderMonitor:
        return LeaderMonitor(self.storage, "orders", JOB_ID.__eq__, 30.0, 5.0, lambda: self.now)

    def seen(self, watch: LeaderMonitor, seconds: float) -> list[Owner]:
        """Poll every five seconds. Return the owners that the watch saw."""
        owners = []
        for _ in range(int(seconds / 5)):
            self.now += 5.0
            owners.append(watch.poll()[0])
        return owners


@pytest.fixture
def twin() -> Iterator[Twin]:
    storage = MemoryStorage(f"watch-{uuid.uuid4().hex}")
    yield Twin(storage)
    storage.delete_tree("")


def test_a_twin_with_heartbeats_is_alive(twin: Twin) -> None:
    watch = twin.watch()
    for beat in range(20):
        twin.write(replace(FIRST, beat=beat))
        assert twin.seen(watch, 25.0) == [Owner.TWIN] * 5


def test_a_silent_twin_counts_as_gone_after_the_timeout(twin: Twin) -> None:
    twin.write(FIRST)
    watch = twin.watch()
    assert twin.seen(watch, 45.0) == [Owner.TWIN] * 6 + [Owner.NOBODY] * 3


def test_a_twin_without_any_heartbeat_counts_as_gone(twin: Twin) -> None:
    assert twin.seen(twin.watch(), 35.0)[-1] is Owner.NOBODY


def test_a_twin_that_has_left_counts_as_gone_at_once(twin: Twin) -> None:
    twin.write(replace(FIRST, left="its process goes"))
    assert twin.watch().poll()[0] is Owner.NOBODY


def test_a_second_twin_gets_its_own_timeout(twin: Twin) -> None:
    twin.write(FIRST)
    watch = twin.watch()
    assert twin.seen(watch, 25.0)[-1] is Owner.TWIN
    twin.claim(JOB_ID)
    assert twin.seen(watch, 25.0)[-1] is Owner.TWIN


def test_a_long_gap_between_polls_does_not_make_the_twin_gone(twin: Twin) -> None:
    twin.write(FIRST)
    watch = twin.watch()
    watch.poll()
    twin.now += 600.0
    assert watch.poll()[0] is Owner.TWIN


def test_another_attempt_name_owns_the_job(twin: Twin) -> None:
    twin.claim("shop.orders.r1~t2.coordinate")
    owner, state = twin.watch().poll()
    assert (owner, state.epoch) == (Owner.OTHER, 3)


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED", "FAILED"])
def test_an_ended_job_has_no_jobmaster(twin: Twin, status: str) -> None:
    twin.journal.write(StatusChanged(JobStatus(status), 5.0))
    owner, state = twin.watch().poll()
    assert (owner, state.status) == (Owner.OVER, status)
