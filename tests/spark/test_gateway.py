"""The JobMaster and its tasks exchange only messages that survive JSON."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import Command, DrainSubtask, FinishSubtask
from airflow_provider_ckpt.coordinator.protocol.wire import from_json, to_json
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.spark import deployment
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun
from airflow_provider_ckpt.spark.preparation.spark_gateway import SparkGateway
from airflow_provider_ckpt.spark.preparation.task_factory import make_context
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.task import Task
from tests.spark.harness import World
from tests.spark.jobs import bounded, mixed
from tests.support.unused_restarts import UNUSED_RESTARTS


def over_json(message: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(message))))


class OverJson(SparkGateway):
    """A gateway that sends its commands to the tasks through JSON."""

    def send(self, *commands: Command) -> None:
        super().send(*map(over_json, commands))


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Send reports to the JobMaster through JSON; return the list of their types."""
    kinds: list[str] = []

    def context(prepared: PreparedRun, state: JobState, epoch: int, post: Any, check_fenced: Any) -> RunContext:
        def through(message: Any) -> None:
            kinds.append(type(message).__name__)
            post(over_json(message))

        return make_context(prepared, state, epoch, through, check_fenced)

    monkeypatch.setattr(deployment, "SparkGateway", OverJson)
    monkeypatch.setattr(deployment, "make_context", context)
    return kinds


def test_a_job_finishes_with_json_messages(world: World, kinds: list[str]) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    stopped = world.run(mixed(world, chain=False), world.ask("stop", lambda: world.released_count() > 0))
    assert (stopped.status, stopped.cause) == ("STOPPED", None)
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert {"SubtaskRunning", "DataAvailable", "BarrierAcknowledged", "SubtaskAtEndOfData", "SubtaskDone"} <= set(kinds)


def test_a_batch_job_finishes_with_json_messages(world: World, kinds: list[str]) -> None:
    expected = world.put_ids("history", 2, 2)
    assert world.run(bounded(world, chain=False), mode="batch").status == "FINISHED"
    assert world.released_ids() == sorted(expected)
    assert "SubtaskAtEndOfData" in kinds


B = AttemptId(2, 0, "b")


def unexpected(task: Task, error: BaseException) -> None:
    raise AssertionError(task.subtask) from error


@pytest.mark.parametrize(
    ("epoch", "attempt", "taken"),
    [(2, B, True), (2, B.next("b"), False), (2, AttemptId(2, 0, "a"), False), (1, B, False), (3, B, False)],
    ids=str,
)
def test_r22_a_command_of_another_attempt_or_epoch_is_ignored(epoch: int, attempt: AttemptId, taken: bool) -> None:
    drained: list[str] = []
    runner: Any = SimpleNamespace(attempt=B, drain=lambda *, at_once: drained.append("v/0"))
    LocalGateway(2, {SubtaskId("v/0"): runner}, unexpected, UNUSED_RESTARTS).send(
        DrainSubtask(epoch, SubtaskId("v/0"), attempt)
    )
    assert drained == ["v/0"] * taken


def test_a_finished_task_ignores_commands() -> None:
    done: list[str] = []
    tells: Any = {"finish": lambda: done.append("finish"), "drain": lambda: done.append("drain")}
    runner: Any = SimpleNamespace(attempt=B, **tells)
    gateway = LocalGateway(2, {SubtaskId("v/0"): runner}, unexpected, UNUSED_RESTARTS)
    gateway.send(FinishSubtask(2, SubtaskId("v/0"), B))
    gateway.send(DrainSubtask(2, SubtaskId("v/0"), B))
    gateway.send(DrainSubtask(2, SubtaskId("w/0"), B))
    assert done == ["finish"]
