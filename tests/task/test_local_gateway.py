"""The tasks of one process: who is told what while one of them is replaced (R22)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

import pytest

from airflow_provider_ckpt.coordinator.commands import (
    AssignSplits,
    Command,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.pause_reason import DropSource, PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.errors import LogFencedError
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.task import InputAdvanced, Task, TaskReplaced

A = AttemptId(2, 0, "a")
B = A.next("b")


class Noting:
    """Notes what it is told, beside its attempt; ``fenced``: by whom it finds its log opened then."""

    subtask = "v/0"

    def __init__(self, attempt: AttemptId, heard: list[tuple[str, str]], fenced: AttemptId | None = None) -> None:
        self.attempt, self._heard, self._fenced = attempt, heard, fenced

    def _note(self, what: str) -> None:
        self._heard.append((str(self.attempt), what))
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

    def drain(self) -> None:
        self._note("drain")

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self._note(f"assign {', '.join(splits)}{' and no more' if is_last else ''}")

    def finish(self) -> None:
        self._note("finish")

    def pull_inputs(self) -> None:
        self._note("pull")

    def check(self) -> None:
        """It is well."""

    def wait_for_batch(self, until: float) -> None:
        """It has none."""

    def stop(self) -> None:
        self._heard.append((str(self.attempt), "stop"))

    def close(self) -> None:
        self._heard.append((str(self.attempt), "close"))


def unexpected(task: Task, error: BaseException) -> None:
    raise AssertionError(task.subtask) from error


def test_r22_from_its_replacement_on_the_next_attempt_is_told_and_no_other() -> None:
    heard: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {"v/0": Noting(A, heard)}, unexpected)
    gateway.send(DrainSubtask(2, "v/0", B))
    gateway.hear(TaskReplaced(Noting(B, heard)))
    gateway.send(DrainSubtask(2, "v/0", A))
    gateway.send(DeploySubtask(2, "v/0", B, VertexPlan(3, ())))
    gateway.hear(InputAdvanced("v/0"))
    assert heard == [(str(A), "stop"), (str(B), "deploy 3"), (str(B), "pull")]


def test_both_attempts_are_over_when_the_gateway_has_stopped() -> None:
    heard: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {"v/0": Noting(A, heard)}, unexpected)
    gateway.hear(TaskReplaced(Noting(B, heard)))
    heard.clear()
    gateway.stop(after_batch=False)
    assert [what for what in heard if what[1] == "close"] == [(str(A), "close"), (str(B), "close")]


CALLS: dict[str, Callable[[LocalGateway], None]] = {
    "drain": lambda gateway: gateway.send(DrainSubtask(2, "v/0", A)),
    "finish": lambda gateway: gateway.send(FinishSubtask(2, "v/0", A)),
    "an input": lambda gateway: gateway.hear(InputAdvanced("v/0")),
    "a look": lambda gateway: gateway.look_around(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_r22_a_task_that_finds_itself_fenced_by_its_next_attempt_does_not_end_the_loop(
    call: Callable[[LocalGateway], None],
) -> None:
    """Word of the next one is still in the inbox. It takes the place when it comes."""
    heard: list[tuple[str, str]] = []
    gateway = LocalGateway(2, {"v/0": Noting(A, heard, fenced=B)}, unexpected)
    call(gateway)
    assert len(heard) == 1
    gateway.hear(TaskReplaced(Noting(B, heard)))
    assert heard[1:] == [(str(A), "stop")]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_r8_a_task_that_finds_its_log_opened_in_a_later_epoch_ends_it(call: Callable[[LocalGateway], None]) -> None:
    gateway = LocalGateway(2, {"v/0": Noting(A, [], fenced=AttemptId(3, 0, "c"))}, unexpected)
    with pytest.raises(LogFencedError):
        call(gateway)


COMMANDS = {
    DeploySubtask(2, "v/0", A, VertexPlan(3, ())): "deploy 3",
    TriggerBarrier(2, "v/0", A, 7): "trigger",
    PauseSubtask(2, "v/0", A, DropSource("history")): "pause",
    ResumeSubtask(2, "v/0", A, VertexPlan(4, ())): "resume",
    DrainSubtask(2, "v/0", A): "drain",
    AssignSplits(2, "v/0", A, ("jan", "feb"), is_last=True): "assign jan, feb and no more",
    FinishSubtask(2, "v/0", A): "finish",
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_reaches_the_task_as_what_it_is(command: Command) -> None:
    heard: list[tuple[str, str]] = []
    LocalGateway(2, {"v/0": Noting(A, heard)}, unexpected).send(command)
    assert heard == [(str(A), COMMANDS[command])]


def test_there_is_no_command_that_is_not_carried_out() -> None:
    assert {type(command) for command in COMMANDS} == set(get_args(Command))
