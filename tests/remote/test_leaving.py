"""Workers whose subtask fails: they restart it, or leave it to another worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import Command, RestartSubtask
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed, SubtaskOpened, TaskReport
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker as Process
from airflow_provider_ckpt.remote.mailbox import Mailbox, master_name
from airflow_provider_ckpt.remote.remote_gateway import RemoteGateway
from airflow_provider_ckpt.remote.unassigned_subtasks import UnassignedSubtasks
from airflow_provider_ckpt.remote.worker import Worker, WorkerEnd
from airflow_provider_ckpt.remote.worker_part import WorkerPart
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

V = SubtaskId("v/0")
DEPLOYMENT, MASTER = 1, 2
FIRST = AttemptId(DEPLOYMENT, 0, "a")


class FailingGateway:
    """A gateway whose attempts fail at once. Then the worker is asked to leave.

    It counts the ``restarts``.
    """

    def __init__(self, *, jvm_is_gone: bool) -> None:
        self.worker: Worker | None = None
        self.restarts = 0
        self._jvm_is_gone = jvm_is_gone

    def start(self) -> None: ...

    def send(self, *commands: Command) -> None:
        (command,) = commands
        assert isinstance(command, RestartSubtask)
        assert self.worker is not None
        self.restarts += 1
        attempt = command.attempt.next(f"n{self.restarts}")
        self.worker.post(SubtaskOpened(DEPLOYMENT, V, attempt))
        gone = self._jvm_is_gone
        self.worker.post(SubtaskFailed(DEPLOYMENT, V, attempt, "disk full", driver_is_lost=gone))

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None: ...
    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None: ...

    def poll_changes(self) -> None:
        """Ask the worker to leave: a second has passed, and its subtask was not restarted."""
        assert self.worker is not None
        self.worker.leave()

    def stop(self, *, after_batch: bool) -> None: ...


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def outbox_of(storage: Storage, name: str) -> Mailbox:
    return Mailbox(storage, "orders", DEPLOYMENT, name, Process(), itertools.count().__next__)


def run(storage: Storage, *, restarts: bool, jvm_is_gone: bool = False) -> tuple[WorkerEnd, Worker]:
    gateway = FailingGateway(jvm_is_gone=jvm_is_gone)
    state = JobState("orders", epoch=MASTER, deployment=DEPLOYMENT)
    worker = Worker(
        "orders",
        WorkerPart(DEPLOYMENT, {V: FIRST}, {V: VertexPlan(0, ())}, restarts=restarts),
        outbox_of(storage, "worker-w"),
        lambda: state,
        lambda: None,
        lambda part, state: part,
        poll_interval=0.01,
        silence=300.0,
        make_nonce=lambda: "n",
    )
    gateway.worker = worker
    return worker.run(gateway), worker


def test_a_supervised_worker_leaves_with_the_cause_of_its_failure(storage: Storage) -> None:
    end, worker = run(storage, restarts=False)
    assert end is WorkerEnd.FAILED
    assert worker.failure is not None
    assert worker.failure.cause == "disk full"


def test_a_worker_with_restarts_stays_after_a_failure(storage: Storage) -> None:
    assert run(storage, restarts=True)[0] is WorkerEnd.ASKED


def test_a_worker_whose_spark_is_lost_leaves(storage: Storage) -> None:
    assert run(storage, restarts=True, jvm_is_gone=True)[0] is WorkerEnd.SPARK_LOST


def test_the_jobmaster_gets_the_failure_of_a_worker_that_left(storage: Storage) -> None:
    run(storage, restarts=False)
    received: list[TaskReport] = []
    gateway = RemoteGateway(
        outbox_of(storage, master_name(MASTER)),
        MASTER,
        DEPLOYMENT,
        received.append,
        poll_interval=0.01,
        lost_after=30.0,
        unassigned=UnassignedSubtasks([V], lambda subtasks: None, 0.0),
        check_fenced=lambda: None,
    )
    gateway.poll()
    failures = [report for report in received if isinstance(report, SubtaskFailed)]
    assert {(failure.cause, failure.driver_is_lost, failure.worker_is_lost) for failure in failures[:1]} == {
        ("disk full", False, True)
    }
