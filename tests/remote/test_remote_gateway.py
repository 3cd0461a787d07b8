"""The JobMaster's gateway: receivers of commands, reports it accepts, and workers it counts as lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol import commands as cm
from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.mailbox import Mailbox, Message
from airflow_provider_ckpt.remote.remote_gateway import LIST_EVERY, RemoteGateway
from airflow_provider_ckpt.remote.unassigned_subtasks import UnassignedSubtasks
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.remote.cluster import FakeClock

V = SubtaskId("v/0")
FIRST, SECOND = AttemptId(1, 1, "n1"), AttemptId(1, 2, "n2")
TWIN = AttemptId(1, 1, "twin")


class Unreachable(WrappedStorage):
    is_down = False

    def read(self, path: str) -> bytes:
        if self.is_down:
            raise StorageTransientError(verb="read", uri=path, reason="on purpose")
        return super().read(path)


class Bench:
    """The JobMaster of epoch 5 in deployment 1. Its workers count as lost after 10 s."""

    def __init__(self, folder: Path, previous_lost_after: float | None = None) -> None:
        self.storage, self.clock = Unreachable(open_storage(folder)), FakeClock()
        self.reports: list[rp.TaskReport] = []
        self.gateway = RemoteGateway(
            self.mailbox("master-0005"),
            5,
            1,
            self.reports.append,
            poll_interval=0.5,
            lost_after=10.0,
            previous_lost_after=previous_lost_after,
            unassigned=UnassignedSubtasks([V], lambda subtasks: None, self.clock()),
            check_fenced=lambda: None,
            clock=self.clock,
        )

    def mailbox(self, name: str) -> Mailbox:
        return Mailbox(self.storage, "job", 1, name, Place(name), self.clock)

    def worker(self, name: str, *says: rp.TaskReport) -> Mailbox:
        worker = self.mailbox(f"worker-{name}")
        for report in says:
            worker.post("master-0005", report)
        worker.deliver()
        return worker

    def poll(self, seconds: float = 2.0) -> list[rp.TaskReport]:
        self.clock.now += seconds
        self.gateway.poll()
        reports = self.reports[:]
        self.reports.clear()
        return reports

    @staticmethod
    def commands_to(worker: Mailbox) -> list[Message]:
        return worker.receive("master-0005")[1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def opened(attempt: AttemptId = FIRST, epoch: int = 1) -> rp.SubtaskOpened:
    return rp.SubtaskOpened(epoch, V, attempt)


def causes(reports: list[rp.TaskReport]) -> list[tuple[AttemptId, str]]:
    return [(report.attempt, report.cause) for report in reports if isinstance(report, rp.SubtaskFailed)]


def test_messages_of_workers_carry_the_epoch_of_the_deployment(bench: Bench) -> None:
    worker = bench.worker("w", opened(), rp.SubtaskRunning(1, V, FIRST, 2))
    assert bench.poll() == [opened(epoch=5), rp.SubtaskRunning(5, V, FIRST, 2)]
    bench.gateway.send(cm.TriggerBarrier(5, V, FIRST, 3))
    bench.poll()
    assert bench.commands_to(worker) == [cm.TriggerBarrier(1, V, FIRST, 3)]


def test_a_command_goes_to_the_worker_that_began_the_attempt(bench: Bench) -> None:
    first, twin = bench.worker("one", opened()), bench.worker("twin", opened(TWIN))
    bench.poll()
    bench.gateway.send(cm.FinishSubtask(5, V, TWIN))
    bench.gateway.send(cm.FinishSubtask(5, V, AttemptId(1, 1, "nobody")))
    bench.poll()
    assert (bench.commands_to(first), bench.commands_to(twin)) == ([], [cm.FinishSubtask(1, V, TWIN)])


def test_a_gateway_forgets_superseded_attempts_of_a_live_worker(bench: Bench) -> None:
    attempts = [AttemptId(1, number, "n") for number in range(1, 50)]
    worker = bench.worker("w", *map(opened, attempts))
    assert len(bench.poll()) == len(attempts)
    assert bench.gateway._host_of == {(V, attempts[-1]): "worker-w"}
    bench.gateway.send(cm.FinishSubtask(5, V, attempts[0]), cm.FinishSubtask(5, V, attempts[-1]))
    bench.poll()
    assert bench.commands_to(worker) == [cm.FinishSubtask(1, V, attempts[-1])]


def test_an_outbox_acknowledges_only_the_current_jobmaster(bench: Bench) -> None:
    worker = bench.worker("w")
    for epoch in range(5, 20):
        master = bench.mailbox(f"master-{epoch:04d}")
        worker.follow_master(epoch)
        master.post(worker.name, cm.FinishSubtask(1, V, FIRST))
        master.deliver()
        assert len(worker.receive(master.name)[1]) == 1
        worker.post(master.name, opened())
        worker.deliver()
        shown, reports = master.receive(worker.name)
        assert shown is not None
        assert (shown.read, reports) == ({master.name: 1}, [opened()])


def test_a_subtask_whose_next_attempt_failed_can_be_restarted(bench: Bench) -> None:
    worker = bench.worker("w", rp.SubtaskFailed(1, V, FIRST, "no log"))
    assert causes(bench.poll()) == [(FIRST, "no log")]
    restart = cm.RestartSubtask(5, V, FIRST, 1.0, VertexPlan(0, ()))
    bench.gateway.send(restart)
    bench.poll()
    assert bench.commands_to(worker) == [cm.RestartSubtask(1, V, FIRST, 1.0, VertexPlan(0, ()))]


def test_attempts_of_a_silent_worker_fail_once(bench: Bench) -> None:
    bench.worker("w", opened())
    bench.poll()
    reports = [report for _ in range(12) for report in bench.poll()]
    assert [(attempt, "no sign of life" in cause) for attempt, cause in causes(reports)] == [(FIRST, True)]
    assert len(reports) == 1


def test_workers_of_the_previous_jobmaster_have_their_own_timeout(tmp_path: Path) -> None:
    """The timeout is Flink's ``execution.batch.job-recovery.previous-worker.recovery.timeout``."""
    bench = Bench(tmp_path, previous_lost_after=4.0)
    bench.worker("gone", opened())
    living = bench.worker("living", opened(TWIN))
    bench.poll()
    living.deliver()
    causes_ = [cause for _ in range(3) for cause in causes(bench.poll())]
    assert [attempt for attempt, _ in causes_] == [FIRST]
    assert "for 4 s" in causes_[0][1]
    late = [cause for _ in range(4) for cause in causes(bench.poll())]
    assert [(attempt, "for 10 s" in cause) for attempt, cause in late] == [(TWIN, True)]


def test_a_worker_that_was_only_silent_gets_its_queued_commands(bench: Bench) -> None:
    worker = bench.worker("w", opened())
    for _ in range(12):
        bench.poll()
    restart = cm.RestartSubtask(5, V, FIRST, 0.0, VertexPlan(0, ()))
    bench.gateway.send(restart)
    bench.poll()
    assert [type(command) for command in bench.commands_to(worker)] == [cm.RestartSubtask]
    worker.post("master-0005", opened(SECOND))
    worker.deliver()
    assert bench.poll() == [opened(SECOND, epoch=5)]
    reports = [report for _ in range(12) for report in bench.poll()]
    assert [attempt for attempt, _ in causes(reports)] == [SECOND]  # the worker may count as lost again


def test_a_worker_that_leaves_fails_its_attempts_at_once(bench: Bench) -> None:
    worker = bench.worker("w", opened())
    bench.poll()
    worker.leave("it was told to")
    worker.deliver()
    assert [(attempt, "has left: it was told to" in cause) for attempt, cause in causes(bench.poll())] == [
        (FIRST, True)
    ]
    bench.gateway.send(cm.FinishSubtask(5, V, FIRST))
    assert bench.poll() == []
    assert bench.commands_to(worker) == []  # no command is queued for a worker that is gone


def test_a_finished_subtask_does_not_fail_when_its_worker_leaves(bench: Bench) -> None:
    worker = bench.worker("w", opened(), rp.SubtaskDone(1, V, FIRST))
    worker.leave("its subtasks have finished")
    worker.deliver()
    assert bench.poll() == [opened(epoch=5), rp.SubtaskDone(5, V, FIRST)]


def test_an_unreachable_storage_makes_no_worker_lost(bench: Bench) -> None:
    bench.worker("w", opened())
    bench.poll()
    bench.storage.is_down = True
    assert bench.poll(60.0) == []
    bench.storage.is_down = False
    assert bench.poll(60.0) == []
    bench.gateway.poll_changes()


def test_a_permanent_poll_error_ends_the_jobmaster(bench: Bench) -> None:
    bench.storage.create("job/deployments/0001/worker-w.json", b"?")
    bench.gateway._run()
    with pytest.raises(MalformedDocumentError):
        bench.gateway.poll_changes()


def test_workers_are_notified_of_the_end_of_the_run(bench: Bench) -> None:
    worker = bench.worker("w", opened())
    bench.gateway.start()
    bench.gateway.stop(after_batch=False)
    outbox, _ = worker.receive("master-0005")
    assert outbox is not None
    assert outbox.left == "the run is over"


class Pauses:
    """A replacement for the event that wakes the gateway's thread.

    ``between``: called one by one, one in each pause. After the last one the gateway ends.
    """

    def __init__(self, gateway: RemoteGateway, *between: Callable[[], object]) -> None:
        self.gateway, self.between, self.asked = gateway, list(between), list[float]()

    def wait(self, seconds: float) -> bool:
        self.asked.append(round(seconds, 3))
        self.between.pop(0)()
        if not self.between:
            self.gateway._closing.set()
        return False

    def clear(self) -> None:
        """Do nothing: the event is never set."""


def test_a_gateway_polls_less_often_without_messages(bench: Bench) -> None:
    gateway, sender = bench.gateway, bench.mailbox("worker-a")

    def speaks() -> None:
        sender.post("master-0005", rp.SubtaskRunning(1, V, FIRST))
        sender.deliver()
        bench.clock.now += LIST_EVERY

    gateway._longest = 1.0
    pauses = Pauses(gateway, *[lambda: None] * 4, speaks, lambda: None, lambda: None)
    gateway._wake = pauses  # type: ignore[assignment]
    gateway._run()
    assert pauses.asked == [0.65, 0.845, 1.0, 1.0, 1.0, 0.5, 0.65]


def test_a_gateway_lists_rarely_while_each_subtask_has_a_worker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[float] = []
    real = bench.storage.list

    def note(path: str) -> list[str]:
        listed.append(bench.clock.now)
        return real(path)

    monkeypatch.setattr(bench.storage, "list", note)
    bench.gateway._interval = 1.0
    began = bench.clock.now
    for _ in range(5):
        bench.poll(1.0)
    worker = bench.worker("a", rp.SubtaskOpened(1, V, FIRST))
    for _ in range(25):
        worker.deliver()
        bench.poll(1.0)
    assert [at - began for at in listed] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 16.0, 26.0]


def test_a_worker_whose_last_report_was_deleted_counts_as_lost(bench: Bench) -> None:
    """The overtaken JobMaster reads first that the worker left, and deletes the outbox.

    The owner of the job never reads it.
    """
    worker = bench.worker("w", opened())
    bench.poll()
    worker.leave("it was told to")
    worker.deliver()
    bench.mailbox("master-0004").delete_outbox(worker.name)
    assert bench.poll() == []
    reports = [report for _ in range(7) for report in bench.poll()]
    assert [attempt for attempt, _ in causes(reports)] == [FIRST]


def test_a_live_worker_whose_outbox_was_deleted_has_not_failed(bench: Bench) -> None:
    worker = bench.worker("w", opened())
    bench.poll()
    bench.mailbox("master-0004").delete_outbox(worker.name)
    assert bench.poll() == []
    worker.post("master-0005", rp.SubtaskRunning(1, V, FIRST, 2))
    worker.deliver()
    assert bench.poll() == [rp.SubtaskRunning(5, V, FIRST, 2)]
    for _ in range(8):
        worker.post("master-0005", rp.SubtaskRunning(1, V, FIRST, 2))
        worker.deliver()
        assert causes(bench.poll()) == []
