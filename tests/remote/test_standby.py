"""A standby worker: when it takes a subtask as abandoned, and when it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.events import (
    DeploymentPrepared,
    EpochClaimed,
    GraphChange,
    PlanRecorded,
    Reconfigured,
    StatusChanged,
    SubtaskFinished,
    SubtasksAdded,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.mailbox import Mailbox
from airflow_provider_ckpt.remote.standby import Standby
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.remote.cluster import FakeClock
from tests.support.definitions import STREAMING

A, B, C = map(SubtaskId, ("a/0", "b/0", "c/0"))
LOST_AFTER = 30.0


class FarStorage(WrappedStorage):
    """A storage whose next ``fails`` reads fail."""

    fails, lists = 0, 0
    on_list: Callable[[], object] = staticmethod(lambda: None)
    """Called during each list of the deployment's folder."""

    def read(self, path: str) -> bytes:
        if self.fails:
            self.fails -= 1
            raise StorageTransientError(verb="read", uri=path, reason="on purpose")
        return super().read(path)

    def list(self, path: str) -> list[str]:
        self.lists += 1
        names = super().list(path)
        if path.endswith("0001"):
            self.on_list()
        return names


class Room:
    """A deployment with a clock that advances while the standby worker sleeps.

    ``then``: times in seconds, and the functions to call at them.
    """

    def __init__(self, folder: Path) -> None:
        self.storage, self.clock = FarStorage(open_storage(folder)), FakeClock()
        self.clock.now = 0.0
        self.state, self.gone = JobState("job"), set[str]()
        self.is_healthy = True
        self.then: list[tuple[float, Callable[[], object]]] = []
        DeploymentPrepared(1, 1.0).apply(self.state)
        self._alive: list[Mailbox] = []

    def worker(self, name: str, *subtasks: SubtaskId) -> Mailbox:
        mailbox = Mailbox(self.storage, "job", 1, f"worker-{name}", Place(name), self.clock, subtasks)
        mailbox.deliver()
        self._alive.append(mailbox)
        return mailbox

    def silence(self, worker: Mailbox) -> None:
        self._alive.remove(worker)

    def answer(self, worker: Mailbox) -> None:
        self._alive.append(worker)

    def leave(self, worker: Mailbox) -> None:
        self.silence(worker)
        worker.leave("it was told to")
        worker.deliver()

    def standby(self, *subtasks: SubtaskId, only_begun: bool = False) -> Standby:
        return Standby(
            self.storage,
            "job",
            1,
            subtasks,
            lambda: self.state,
            Timing(0.5, LOST_AFTER),
            only_begun=only_begun,
            is_healthy=lambda: self.is_healthy,
            is_process_alive=lambda place: False if place.host in self.gone else None,
            clock=self.clock,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.clock.now += seconds
        for worker in self._alive:
            worker.deliver()
        due = [act for at, act in self.then if at <= self.clock.now]
        self.then = [action for action in self.then if action[0] > self.clock.now]
        for act in due:
            act()
        assert self.clock.now < 1000, "it waits for ever"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_subtasks_without_a_worker_are_taken_at_once(room: Room) -> None:
    room.worker("x", B)
    assert room.standby(A, C).wait() == (A, C)
    assert room.clock.now == 0


def test_subtasks_of_a_live_worker_are_not_taken(room: Room) -> None:
    worker = room.worker("x", A)
    room.then = [(200.0, lambda: room.silence(worker))]
    assert room.standby(A).wait() == (A,)
    assert 200 + LOST_AFTER - 2 <= room.clock.now <= 200 + LOST_AFTER + 2


def test_subtasks_of_a_dead_process_are_taken_at_once(room: Room) -> None:
    room.worker("x", A)
    room.then = [(50.0, lambda: room.gone.add("x"))]
    assert room.standby(A).wait() == (A,)
    assert room.clock.now == 50.0


def test_subtasks_of_a_worker_that_leaves_are_taken_at_once(room: Room) -> None:
    worker = room.worker("x", A)
    room.then = [(50.0, lambda: room.leave(worker))]
    assert room.standby(A).wait() == (A,)
    assert room.clock.now == 50.0


def test_only_abandoned_subtasks_are_taken(room: Room) -> None:
    room.worker("x", A), room.worker("y", B, C)
    room.then = [(50.0, lambda: room.gone.add("y"))]
    assert room.standby(A, B, C).wait() == (B, C)


def test_a_replacement_worker_keeps_its_subtasks(room: Room) -> None:
    """The replacement may start between two polls.

    So the standby worker polls for new workers before it takes a subtask.
    """
    room.worker("x", A)
    room.then = [
        (50.0, lambda: room.worker("y", A)),
        (50.0, lambda: room.gone.add("x")),
        (90.0, lambda: room.gone.add("y")),
    ]
    assert room.standby(A).wait() == (A,)
    assert room.clock.now == 90.0


def test_subtasks_of_a_worker_with_a_deleted_outbox_are_taken(room: Room) -> None:
    worker = room.worker("x", A)
    room.silence(worker)
    room.then = [(5.0, lambda: room.storage.delete("job/deployments/0001/worker-x.json"))]
    assert room.standby(A).wait() == (A,)
    assert room.clock.now == 5.0


def test_finished_subtasks_are_not_taken(room: Room) -> None:
    """Its worker has left. The other subtasks still run, which is no reason to list new workers again and again."""
    worker = room.worker("x", A)
    two = room.worker("y", B)
    SubtaskFinished(A, "0001-01-n", 1.0).apply(room.state)
    room.leave(worker)
    standby = room.standby(A, B)
    room.then = [(100.0, lambda: room.leave(two))]
    assert standby.wait() == (B,)
    assert room.storage.lists < 5


def test_a_standby_takes_no_subtask_that_finished_before_its_worker_left(room: Room) -> None:
    """The journal had the end before the worker left. The standby worker may have polled the journal earlier."""
    worker = room.worker("x", A)

    def finishes() -> None:
        SubtaskFinished(A, "0001-01-n", 1.0).apply(room.state)
        room.leave(worker)

    room.then = [(50.5, finishes)]
    assert room.standby(A).wait() is WorkerEnd.DONE


def test_the_end_of_the_job_ends_a_standby_worker(room: Room) -> None:
    worker = room.worker("x", A)

    def ends() -> None:
        StatusChanged(JobStatus.STOPPED, 2.0).apply(room.state)
        room.leave(worker)

    room.then = [(50.0, ends)]
    assert room.standby(A).wait() is WorkerEnd.JOB_OVER


def test_another_deployment_ends_the_wait(room: Room) -> None:
    room.worker("x", A)
    room.then = [(50.0, lambda: EpochClaimed(2, "t", Place("m"), 1.0).apply(room.state))]
    assert room.standby(A).wait() is WorkerEnd.JOB_OVER


def test_another_jobmaster_does_not_end_a_standby_worker(room: Room) -> None:
    room.worker("x", A)
    claim = EpochClaimed(2, "t", Place("m"), 1.0, deployment=1)
    room.then = [(50.0, lambda: claim.apply(room.state)), (90.0, lambda: room.gone.add("x"))]
    assert room.standby(A).wait() == (A,)


def test_a_standby_worker_without_spark_takes_no_subtask(room: Room) -> None:
    """The standby worker's JVM is gone, so the supervisor restarts it."""
    room.worker("x", A)
    room.then = [(50.0, lambda: setattr(room, "is_healthy", False)), (50.0, lambda: room.gone.add("x"))]
    assert room.standby(A).wait() is WorkerEnd.SPARK_LOST


def test_a_standby_worker_leaves_on_request(room: Room) -> None:
    room.worker("x", A)
    standby = room.standby(A)
    room.then = [(50.0, standby.leave)]
    assert standby.wait() is WorkerEnd.ASKED


def test_w26_a_storage_outage_makes_no_worker_lost(room: Room) -> None:
    """The storage answers neither process.

    When it answers again, the worker's last beat is old, but the worker is alive.
    """
    worker = room.worker("x", A)

    def fails() -> None:
        room.silence(worker)
        room.storage.fails = 200

    def answer() -> None:
        assert room.storage.fails < 10
        room.answer(worker)

    room.then = [(11.0, fails), (113.0, answer), (150.0, lambda: room.silence(worker))]
    assert room.standby(A).wait() == (A,)
    assert room.clock.now >= 150 + LOST_AFTER - 2


def test_an_unreadable_worker_does_not_end_a_standby_worker(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The worker may run any subtask, so nothing is taken while it writes. Once it stops writing, it counts as lost."""
    room.worker("x", A)
    path, written = "job/deployments/0001/worker-z.json", iter(range(1000))
    room.storage.replace(path, b"")
    room.then = [(at, lambda: room.storage.replace(path, b"later %d" % next(written))) for at in range(10, 200, 10)]
    room.then.append((5.0, lambda: room.gone.add("x")))
    assert room.standby(A).wait() == (A,)
    assert 190 + LOST_AFTER <= room.clock.now < 195 + LOST_AFTER
    assert len([record for record in caplog.records if "cannot be read, the worker counts" in record.getMessage()]) == 1


GUEST = SubtaskId("a/1")
WIDER = JobGraph((JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True, parallelism=2, splits=True),), ())


def rescaled(room: Room) -> None:
    """Rescale a: a/1 runs in the worker of a/0."""
    PlanRecorded(WIDER, {}, 1.0, STREAMING, hosts={GUEST: A}).apply(room.state)


def test_r21_an_added_subtask_is_taken_with_its_host(room: Room) -> None:
    """The worker that started before the rescale does not list the new subtask."""
    worker = room.worker("x", A)
    rescaled(room)
    room.then = [(200.0, lambda: room.silence(worker))]
    assert room.standby(A).wait() == (A, GUEST)
    assert room.clock.now > 200


def test_a_subtask_added_while_a_worker_stands_by_is_taken(room: Room) -> None:
    worker = room.worker("x", A)
    room.then = [(20.0, lambda: rescaled(room)), (100.0, lambda: room.leave(worker))]
    assert room.standby(A).wait() == (A, GUEST)


def test_an_added_subtask_is_taken_with_its_finished_host(room: Room) -> None:
    """A later rescale may name the finished subtask as host, because it is the root of both.

    The worker of the other one runs it.
    """
    worker = room.worker("x", A)
    rescaled(room)
    SubtaskFinished(A, "0001-a", 1.0).apply(room.state)
    room.then = [(50.0, lambda: room.leave(worker))]
    taken = room.standby(A).wait()
    assert taken == (A, GUEST)
    again = Reconfigured(1, {}, 2.0, GraphChange(WIDER.rescaled({"a": 3}), {"a": 3}, {SubtaskId("a/2"): A}))
    for event in (again, SubtasksAdded((SubtaskId("a/2"),), 3.0)):
        event.apply(room.state)
    assert room.state.with_colocated(taken) == (A, GUEST, "a/2")


def begun(room: Room, subtask: SubtaskId, number: int) -> None:
    log = SubtaskLog(room.storage, subtask_log_path("job", subtask.vertex, subtask.number))
    log.load()
    log.open(AttemptId(1, number, "n"), 0)


def test_a_subtask_that_was_never_begun_is_not_taken(room: Room) -> None:
    """The planner has opened all logs with attempt 0. A worker begins only with attempt 1."""
    for subtask, number in ((A, 0), (B, 0), (B, 1)):
        begun(room, subtask, number)
    standby = room.standby(A, B, C, only_begun=True)
    assert standby.wait() == (B,)
    room.then = [(30.0, lambda: begun(room, A, 1)), (30.0, lambda: room.worker("y", A))]
    room.then += [(60.0, lambda: room.gone.add("y"))]
    worker = room.worker("x", B)
    assert worker.name == "worker-x"
    assert standby.wait() == (A,)
    assert room.clock.now == 60.0


def test_a_subtask_begun_during_the_listing_is_not_taken(room: Room) -> None:
    """A worker writes its outbox before it begins an attempt.

    So the list of workers shows the worker of every attempt begun before it. If it does not, that worker is gone.
    """
    begun(room, A, 0)
    room.storage.on_list = lambda: begun(room, A, 1)
    begun(room, B, 1)
    assert room.standby(A, B, only_begun=True).wait() == (B,)
