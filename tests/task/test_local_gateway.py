"""The tasks of one process, and the receivers of commands while one of them is replaced (R22)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import get_args

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    Command,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.reports import Report, SubtaskDone, SubtaskFailed, SubtaskOpened
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource, PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task
from tests.support.unused_restarts import UNUSED_RESTARTS

V = SubtaskId("v/0")
A = AttemptId(2, 0, "a")
B = A.next("b")


class RecordingTask:
    """A task that records (attempt, command). ``fenced``: the attempt that has opened its log meanwhile."""

    subtask = V

    def __init__(self, attempt: AttemptId, entries: list[tuple[str, str]], fenced: AttemptId | None = None) -> None:
        self.attempt, self._entries, self._fenced = attempt, entries, fenced

    def _note(self, entry: str) -> None:
        self._entries.append((str(self.attempt), entry))
        if self._fenced is not None:
            raise LogFencedError(log="log", attempt=self._fenced, epoch=self._fenced.epoch)

    def deploy(self, plan: VertexPlan) -> None:
        self._note(f"deploy {plan.number}")

    def trigger(self, checkpoint: int) -> None:
        self._note("trigger")

    def pause(self, reason: PauseReason) -> None:
        self._note("pause")

    def resume(self, plan: VertexPlan) -> None:
        self._note("resume")

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        self._note(f"prepare {trial}")

    def drain(self, *, at_once: bool = False) -> None:
        self._note("drain")

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self._note(f"assign {', '.join(splits)}{' and no more' if is_last else ''}")

    def finish(self) -> None:
        self._note("finish")

    def pull_inputs(self) -> None:
        self._note("pull")

    def check(self) -> None:
        """Report no failure."""

    def wait_for_batch(self, until: float) -> None:
        """Do nothing: the task has no batch."""

    def stop(self) -> None:
        self._entries.append((str(self.attempt), "stop"))

    def close(self) -> None:
        self._entries.append((str(self.attempt), "close"))


def unexpected(task: Task, error: BaseException) -> None:
    raise AssertionError(task.subtask) from error


class Made(Restarts):
    """Restarts whose only prepared task is ``task``, the next attempt of a task that has not failed."""

    def __init__(self, task: Task) -> None:
        super().__init__(Making([]), queue.Queue[Report]().put, lambda: "n")
        self._created[task.subtask] = task


@pytest.mark.parametrize("attempt", [A, B.next("c"), AttemptId(2, 1, "x")], ids=str)
def test_an_unknown_attempt_does_not_replace_a_task(attempt: AttemptId) -> None:
    """For example after a closed log, whose next attempt has nothing to do."""
    entries: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, Made(RecordingTask(B, entries)))
    gateway.on_restarted(V, attempt)
    gateway.on_restarted(SubtaskId("w/0"), B)
    gateway.send(DrainSubtask(2, V, A))
    assert entries == [(str(A), "drain")]


def test_r22_commands_after_a_replacement_go_to_the_next_attempt_only() -> None:
    entries: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, Made(RecordingTask(B, entries)))
    gateway.send(DrainSubtask(2, V, B))
    gateway.on_restarted(V, B)
    gateway.send(DrainSubtask(2, V, A))
    gateway.send(DeploySubtask(2, V, B, VertexPlan(3, ())))
    gateway.pull_inputs([SubtaskId("w/0"), V])
    assert entries == [(str(A), "stop"), (str(B), "deploy 3"), (str(B), "pull")]


def test_stopping_the_gateway_closes_both_attempts() -> None:
    entries: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, Made(RecordingTask(B, entries)))
    gateway.on_restarted(V, B)
    entries.clear()
    gateway.stop(after_batch=False)
    assert [entry for entry in entries if entry[1] == "close"] == [(str(A), "close"), (str(B), "close")]


CALLS: dict[str, Callable[[LocalGateway], None]] = {
    "drain": lambda gateway: gateway.send(DrainSubtask(2, V, A)),
    "finish": lambda gateway: gateway.send(FinishSubtask(2, V, A)),
    "an input": lambda gateway: gateway.pull_inputs([V]),
    "a look": lambda gateway: gateway.poll_changes(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_r22_a_task_fenced_by_its_next_attempt_does_not_end_the_loop(
    call: Callable[[LocalGateway], None],
) -> None:
    """The report of the next attempt is still in the inbox. The next attempt takes over when it is read."""
    entries: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {V: RecordingTask(A, entries, fenced=B)}, unexpected, Made(RecordingTask(B, entries)))
    call(gateway)
    assert len(entries) == 1
    gateway.on_restarted(V, B)
    assert entries[1:] == [(str(A), "stop")]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_r8_a_task_fenced_by_a_later_epoch_ends_the_loop(call: Callable[[LocalGateway], None]) -> None:
    gateway = LocalGateway(2, {V: RecordingTask(A, [], fenced=AttemptId(3, 0, "c"))}, unexpected, UNUSED_RESTARTS)
    with pytest.raises(LogFencedError):
        call(gateway)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_r15_a_task_failure_in_the_loop_goes_to_the_coordinator(
    call: Callable[[LocalGateway], None],
) -> None:
    """For example, a storage that refuses the entry of a feed. The task may restart, and the others continue."""

    class FailingTask(RecordingTask):
        def _note(self, entry: str) -> None:
            raise StorageTransientError(verb="create", uri=entry, reason="Input/output error")

    crashes: list[tuple[AttemptId, type[BaseException]]] = []
    task = FailingTask(A, [])
    gateway = LocalGateway(
        2, {V: task}, lambda task, error: crashes.append((task.attempt, type(error))), UNUSED_RESTARTS
    )
    call(gateway)
    call(gateway)
    assert crashes == [(A, StorageTransientError)], "once"


COMMANDS = {
    DeploySubtask(2, V, A, VertexPlan(3, ())): "deploy 3",
    TriggerBarrier(2, V, A, 7): "trigger",
    PauseSubtask(2, V, A, DropSource("history")): "pause",
    PrepareReconfiguration(2, V, A, "3.5", VertexPlan(4, ())): "prepare 3.5",
    ResumeSubtask(2, V, A, VertexPlan(4, ())): "resume",
    DrainSubtask(2, V, A): "drain",
    AssignSplits(2, V, A, ("jan", "feb"), is_last=True): "assign jan, feb and no more",
    FinishSubtask(2, V, A): "finish",
}


class Meeting(RecordingTask):
    """A task that waits in each call until all tasks are called."""

    def __init__(self, subtask: SubtaskId, together: threading.Barrier, entries: list[tuple[str, str]]) -> None:
        super().__init__(A, entries)
        self.subtask, self._together = subtask, together

    def _note(self, entry: str) -> None:
        self._together.wait(30)
        super()._note(entry)


def meeting(count: int, entries: list[tuple[str, str]]) -> dict[SubtaskId, Meeting]:
    together = threading.Barrier(count)
    subtasks = [SubtaskId(f"v/{number}") for number in range(count)]
    return {subtask: Meeting(subtask, together, entries) for subtask in subtasks}


def threads_of_barriers() -> set[threading.Thread]:
    """Return the threads for barriers, including those of killed processes in other tests."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("ckpt-barriers")}


SIDE_BY_SIDE: dict[str, Callable[[LocalGateway, Iterable[SubtaskId]], None]] = {
    "barriers": lambda gateway, all_: gateway.send(*(TriggerBarrier(2, subtask, A, 7) for subtask in all_)),
    "inputs": lambda gateway, all_: gateway.pull_inputs(all_),
    "a look": lambda gateway, all_: gateway.poll_changes(),
}


@pytest.mark.parametrize("call", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_barriers_are_written_in_parallel(call: Callable[[LocalGateway, Iterable[SubtaskId]], None]) -> None:
    """If the calls were sequential, each task would wait for the next one forever."""
    entries: list[tuple[str, str]] = []
    tasks, before = meeting(5, entries), threads_of_barriers()
    gateway = LocalGateway(2, tasks, unexpected, UNUSED_RESTARTS)
    call(gateway, tasks)
    assert len(entries) == 5
    gateway.stop(after_batch=False)
    assert threads_of_barriers() <= before


def test_other_commands_keep_their_order_among_barriers() -> None:
    entries: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, UNUSED_RESTARTS)
    gateway.send(DeploySubtask(2, V, A, VertexPlan(3, ())), TriggerBarrier(2, V, A, 7), DrainSubtask(2, V, A))
    assert [entry for _, entry in entries] == ["deploy 3", "trigger", "drain"]


def test_r8_an_overtaken_barrier_ends_the_loop_after_the_others() -> None:
    """Nothing must be appended to a log after the loop has ended."""
    ended = threading.Event()
    entries: list[tuple[str, str]] = []

    class Slow(RecordingTask):
        subtask = SubtaskId("w/0")

        def trigger(self, checkpoint: int) -> None:
            super().trigger(0 if ended.wait(0.3) else checkpoint)
            entries.append(("the loop", "has ended" if ended.is_set() else "waits"))

    tasks = {V: RecordingTask(A, [], fenced=AttemptId(3, 0, "c")), Slow.subtask: Slow(A, entries)}
    gateway = LocalGateway(2, tasks, unexpected, UNUSED_RESTARTS)
    try:
        with pytest.raises(LogFencedError):
            gateway.send(*(TriggerBarrier(2, task, A, 7) for task in tasks))
    finally:
        ended.set()
    assert entries == [(str(A), "trigger"), ("the loop", "waits")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_each_command_reaches_its_task(command: Command) -> None:
    entries: list[tuple[str, str]] = []
    LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, UNUSED_RESTARTS).send(command)
    assert entries == [(str(A), COMMANDS[command])]


def test_every_command_is_carried_out() -> None:
    assert {type(command) for command in COMMANDS} == set(get_args(Command)) - {RestartSubtask}


class Making:
    """A factory of next attempts that records each call. The first ``failures`` calls fail."""

    def __init__(self, entries: list[tuple[str, str]], failures: int = 0, *, is_closed: bool = False) -> None:
        self.entries, self.failures, self.is_closed = entries, failures, is_closed
        self.inbox = queue.Queue[Report]()
        self.restarts = Restarts(self, self.inbox.put, lambda: "n")

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Task | None:
        self.entries.append((str(attempt), f"begin {plan.number}"))
        if len(self.entries) <= self.failures:
            raise OSError("no answer")
        return None if self.is_closed else RecordingTask(attempt, self.entries)

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        self.inbox.put(SubtaskFailed(2, subtask, attempt, str(error)))


NEXT = A.next("n")


def restart(attempt: AttemptId = A, delay: float = 0.0) -> RestartSubtask:
    return RestartSubtask(2, V, attempt, delay, VertexPlan(5, ()))


def test_a_failed_task_has_ended_before_its_next_attempt_begins() -> None:
    entries: list[tuple[str, str]] = []
    making = Making(entries)
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, making.restarts)
    gateway.send(restart())
    gateway.send(DrainSubtask(2, V, A))
    opened = making.inbox.get(timeout=60)
    assert entries == [(str(A), "stop"), (str(A), "close"), (str(NEXT), "begin 5")]
    assert opened == SubtaskOpened(2, V, NEXT)
    gateway.send(DrainSubtask(2, V, NEXT))
    gateway.on_restarted(V, NEXT)
    gateway.send(DeploySubtask(2, V, NEXT, VertexPlan(5, ())))
    gateway.stop(after_batch=False)
    assert entries[3:] == [(str(NEXT), "deploy 5"), (str(NEXT), "stop"), (str(NEXT), "close")]


@pytest.mark.parametrize(("epoch", "attempt"), [(1, A), (3, A), (2, B)], ids=str)
def test_r22_a_task_of_another_epoch_or_attempt_is_not_restarted(epoch: int, attempt: AttemptId) -> None:
    entries: list[tuple[str, str]] = []
    making = Making(entries)
    gateway = LocalGateway(2, {V: RecordingTask(A, entries)}, unexpected, making.restarts)
    gateway.send(RestartSubtask(epoch, V, attempt, 0.0, VertexPlan(5, ())))
    gateway.send(DrainSubtask(2, V, A))
    assert entries == [(str(A), "drain")]
    gateway.stop(after_batch=False)
    assert making.inbox.empty()


def test_a_failed_next_attempt_is_reported_and_followed_by_another() -> None:
    entries: list[tuple[str, str]] = []
    making = Making(entries, failures=1)
    gateway = LocalGateway(2, {}, unexpected, making.restarts)
    gateway.send(restart())
    assert making.inbox.get(timeout=60) == SubtaskFailed(2, V, NEXT, "no answer")
    gateway.send(restart(NEXT))
    assert making.inbox.get(timeout=60) == SubtaskOpened(2, V, NEXT.next("n"))
    gateway.stop(after_batch=False)


def test_a_task_that_failed_to_stop_is_stopped_at_the_next_restart() -> None:
    entries: list[tuple[str, str]] = []

    class Stubborn(RecordingTask):
        tries = 0

        def stop(self) -> None:
            super().stop()
            self.tries += 1
            if self.tries == 1:
                raise TimeoutError("the query does not end")

    making = Making(entries)
    gateway = LocalGateway(2, {V: Stubborn(A, entries)}, unexpected, making.restarts)
    gateway.send(restart())
    assert making.inbox.get(timeout=60) == SubtaskFailed(2, V, NEXT, "the query does not end")
    gateway.send(restart(NEXT))
    assert making.inbox.get(timeout=60) == SubtaskOpened(2, V, NEXT.next("n"))
    assert entries == [(str(A), "stop"), (str(A), "stop"), (str(A), "close"), (str(NEXT.next("n")), "begin 5")]
    gateway.stop(after_batch=False)


def test_a_restart_over_a_closed_log_only_reports_the_end() -> None:
    making = Making([], is_closed=True)
    making.restarts.begin(restart(), ())
    world = (2, V, NEXT)
    assert [making.inbox.get(timeout=60) for _ in range(2)] == [SubtaskOpened(*world), SubtaskDone(*world)]


def test_an_unreported_next_attempt_is_stopped_with_the_run() -> None:
    entries: list[tuple[str, str]] = []
    making = Making(entries)
    gateway = LocalGateway(2, {}, unexpected, making.restarts)
    gateway.send(restart())
    making.inbox.get(timeout=60)
    gateway.stop(after_batch=False)
    assert entries == [(str(NEXT), "begin 5"), (str(NEXT), "stop"), (str(NEXT), "close")]


def test_an_ended_run_begins_no_next_attempt() -> None:
    entries: list[tuple[str, str]] = []
    making = Making(entries)
    gateway = LocalGateway(2, {}, unexpected, making.restarts)
    gateway.send(restart(delay=3600.0))
    gateway.stop(after_batch=False)
    assert entries == []
    assert making.inbox.empty()


def test_a_task_that_does_not_stop_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("airflow_provider_ckpt.task.restarts.LAST_RESTART", 0.01)
    hangs = threading.Event()

    class Hanging(RecordingTask):
        def close(self) -> None:
            hangs.wait(60)

    making = Making([])
    gateway = LocalGateway(2, {V: Hanging(A, [])}, unexpected, making.restarts)
    gateway.send(restart())
    gateway.stop(after_batch=False)
    assert "ckpt-restart-v/0 has not ended within 0.01 s, and is abandoned" in caplog.text
    hangs.set()


def test_barrier_threads_end_when_a_task_cannot_be_stopped() -> None:
    class Stubborn(RecordingTask):
        def stop(self) -> None:
            raise TimeoutError("the query does not end")

    other, before = SubtaskId("w/0"), threads_of_barriers()
    gateway = LocalGateway(2, {V: Stubborn(A, []), other: RecordingTask(A, [])}, unexpected, Making([]).restarts)
    gateway.send(TriggerBarrier(2, V, A, 1), TriggerBarrier(2, other, A, 1))
    assert threads_of_barriers() - before
    with pytest.raises(TimeoutError):
        gateway.stop(after_batch=False)
    assert threads_of_barriers() <= before
