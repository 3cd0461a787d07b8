"""Workers that come and go: failures that the gateway reports for them, and records that it keeps."""

from __future__ import annotations

import itertools
import secrets

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed, SubtaskOpened, TaskReport
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.mailbox import Mailbox, master_name, worker_name
from airflow_provider_ckpt.remote.remote_gateway import LIST_SELDOM, RemoteGateway
from airflow_provider_ckpt.remote.unassigned_subtasks import UnassignedSubtasks
from airflow_provider_ckpt.storage.memory import MemoryStorage

MASTER = master_name(2)
A = SubtaskId("a/0")
LOST_AFTER = 5.0


class GatewayBench:
    """A JobMaster of epoch 2 and workers of deployment 1, which take one step after the other."""

    def __init__(self) -> None:
        self.now, self.storage = 0.0, MemoryStorage(f"memory://{secrets.token_hex(8)}")
        self.reports: list[TaskReport] = []
        self.waiting: list[list[SubtaskId]] = []
        self.numbers = itertools.count(1)
        self.gateway = RemoteGateway(
            self.mailbox(MASTER),
            2,
            1,
            self.reports.append,
            poll_interval=1.0,
            lost_after=LOST_AFTER,
            unassigned=UnassignedSubtasks([A], self.waiting.append, self.now),
            check_fenced=lambda: None,
            clock=lambda: self.now,
        )

    def mailbox(self, name: str) -> Mailbox:
        return Mailbox(self.storage, "job", 1, name, Worker(), lambda: self.now)

    def worker(self) -> tuple[Mailbox, AttemptId]:
        """Add a worker that begins the next attempt."""
        number = next(self.numbers)
        mailbox, attempt = self.mailbox(worker_name(str(number))), AttemptId(1, number, f"n{number}")
        mailbox.post(MASTER, SubtaskOpened(1, A, attempt))
        mailbox.deliver()
        self.poll()
        return mailbox, attempt

    def poll(self, seconds: float = 1.0) -> None:
        for _ in range(int(seconds)):
            self.now += 1.0
            self.gateway.poll()
            self.gateway.poll_changes()

    def outboxes(self) -> list[str]:
        return self.mailbox("looks").senders("worker-")

    def failed(self) -> list[SubtaskFailed]:
        return [report for report in self.reports if isinstance(report, SubtaskFailed)]


def test_a_worker_that_leaves_is_forgotten_by_the_gateway() -> None:
    bench = GatewayBench()
    mailbox, attempt = bench.worker()
    mailbox.leave("it was told to")
    mailbox.deliver()
    bench.poll()
    (failure,) = bench.failed()
    assert (failure.attempt, failure.worker_is_lost, failure.epoch) == (attempt, True, 2)
    assert bench.outboxes() == []
    bench.poll(20)
    assert bench.waiting == [[A]]
    assert len(bench.failed()) == 1


@pytest.mark.parametrize("deaths", [1, 5])
def test_the_gateway_forgets_dead_workers_and_keeps_the_living_one(deaths: int) -> None:
    bench = GatewayBench()
    workers = [bench.worker() for _ in range(deaths + 1)]
    alive, _ = workers[-1]
    for _ in range(12):
        alive.deliver()
        bench.poll()
    assert bench.outboxes() == [alive.name]


def test_a_lost_worker_is_reported_once_and_may_return() -> None:
    bench = GatewayBench()
    mailbox, attempt = bench.worker()
    bench.poll(LOST_AFTER + 3)
    assert [(failure.attempt, failure.worker_is_lost) for failure in bench.failed()] == [(attempt, True)]
    assert bench.outboxes() == [mailbox.name]
    mailbox.post(MASTER, SubtaskOpened(1, A, attempt.next("again")))
    mailbox.deliver()
    bench.poll()
    assert bench.reports[-1] == SubtaskOpened(2, A, attempt.next("again"))


def test_a_forgotten_worker_that_resumes_is_read_again() -> None:
    bench = GatewayBench()
    mailbox, _ = bench.worker()
    follower, _ = bench.worker()
    for _ in range(10):
        follower.deliver()
        bench.poll()
    assert bench.outboxes() == [follower.name]
    mailbox.leave("it was overtaken")
    mailbox.deliver()
    for _ in range(LIST_SELDOM + 1):
        follower.deliver()
        bench.poll()
    assert bench.outboxes() == [follower.name]
    assert all(failure.attempt.number == 1 for failure in bench.failed())
