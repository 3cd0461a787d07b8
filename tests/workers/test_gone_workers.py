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


class Here:
    """A JobMaster of epoch 2 and workers of deployment 1, which take one step after the other."""

    def __init__(self) -> None:
        self.now, self.storage = 0.0, MemoryStorage(f"memory://{secrets.token_hex(8)}")
        self.heard: list[TaskReport] = []
        self.waiting: list[list[SubtaskId]] = []
        self.numbers = itertools.count(1)
        self.gateway = RemoteGateway(
            self.side(MASTER),
            2,
            1,
            self.heard.append,
            poll_interval=1.0,
            lost_after=LOST_AFTER,
            unassigned=UnassignedSubtasks([A], self.waiting.append, self.now),
            check_fenced=lambda: None,
            clock=lambda: self.now,
        )

    def side(self, name: str) -> Mailbox:
        return Mailbox(self.storage, "job", 1, name, Worker(), lambda: self.now)

    def worker(self) -> tuple[Mailbox, AttemptId]:
        """Add a worker that begins the next attempt."""
        number = next(self.numbers)
        side, attempt = self.side(worker_name(str(number))), AttemptId(1, number, f"n{number}")
        side.post(MASTER, SubtaskOpened(1, A, attempt))
        side.deliver()
        self.look()
        return side, attempt

    def look(self, seconds: float = 1.0) -> None:
        for _ in range(int(seconds)):
            self.now += 1.0
            self.gateway.poll()
            self.gateway.poll_changes()

    def known(self) -> list[str]:
        return self.side("looks").senders("worker-")

    def failed(self) -> list[SubtaskFailed]:
        return [report for report in self.heard if isinstance(report, SubtaskFailed)]


def test_one_that_leaves_is_no_failure_of_its_subtask_and_nothing_is_kept_of_it() -> None:
    here = Here()
    side, attempt = here.worker()
    side.leave("it was told to")
    side.deliver()
    here.look()
    (failure,) = here.failed()
    assert (failure.attempt, failure.worker_is_lost, failure.epoch) == (attempt, True, 2)
    assert here.known() == []
    here.look(20)
    assert here.waiting == [[A]]
    assert len(here.failed()) == 1


@pytest.mark.parametrize("deaths", [1, 5])
def test_of_those_that_die_again_and_again_nothing_is_kept_but_of_the_last_one(deaths: int) -> None:
    here = Here()
    workers = [here.worker() for _ in range(deaths + 1)]
    alive, _ = workers[-1]
    for _ in range(12):
        alive.deliver()
        here.look()
    assert here.known() == [alive.name]


def test_one_that_is_lost_and_that_nobody_follows_is_told_once_and_heard_when_it_lives() -> None:
    here = Here()
    side, attempt = here.worker()
    here.look(LOST_AFTER + 3)
    assert [(failure.attempt, failure.worker_is_lost) for failure in here.failed()] == [(attempt, True)]
    assert here.known() == [side.name]
    side.post(MASTER, SubtaskOpened(1, A, attempt.next("again")))
    side.deliver()
    here.look()
    assert here.heard[-1] == SubtaskOpened(2, A, attempt.next("again"))


def test_one_that_wakes_up_after_it_was_forgotten_is_read_again() -> None:
    here = Here()
    side, _ = here.worker()
    follower, _ = here.worker()
    for _ in range(10):
        follower.deliver()
        here.look()
    assert here.known() == [follower.name]
    side.leave("it was overtaken")
    side.deliver()
    for _ in range(LIST_SELDOM + 1):
        follower.deliver()
        here.look()
    assert here.known() == [follower.name]
    assert all(failure.attempt.number == 1 for failure in here.failed())
