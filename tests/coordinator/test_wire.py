"""JSON form of reports and commands, because tasks need not run in the JobMaster's process."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.commands import (
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
from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    BatchPublished,
    DataAvailable,
    QueryMeasured,
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    SourceAtEnd,
    SourceLogGrown,
    SplitsCompleted,
    SplitsReturned,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
    TaskReport,
)
from airflow_provider_ckpt.coordinator.wire import from_json, to_json
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.batch_progress import BatchProgress
from airflow_provider_ckpt.model.pause_reason import BeginAnew, DropSource, Reconfigure
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

WORLD = (3, SubtaskId("v/0"), AttemptId(3, 2, "ab"))
SNAPSHOT = Snapshot(
    position=7,
    batch_id=4,
    offsets={"live": "12"},
    inputs={"a__v": 5},
    watermark=1000,
    ended=("history",),
    finished=False,
    finished_on_restore=False,
)
SETTINGS = VertexSettings(trigger_interval=0.0, state_partitions=4, logic={"v": "v2.py:job"})
MESSAGES: list[Any] = [
    SubtaskOpened(*WORLD),
    SubtaskRunning(*WORLD),
    SubtaskAtEndOfData(*WORLD),
    SubtaskDone(*WORLD),
    SubtaskFailed(*WORLD, "ValueError: no", terminal=True, error="ValueError: no", traceback="Traceback"),
    SubtaskFailed(*WORLD, "Spark is gone", driver_is_lost=True),
    SubtaskFailed(*WORLD, "a file is gone", result_is_lost=True),
    SubtaskFenced(*WORLD, "taken over"),
    SubtaskFenced(*WORLD, "taken over", AttemptId(4, 0, "cd")),
    DataAvailable(*WORLD, (SubtaskId("w/0"), SubtaskId("w/1"))),
    BarrierAcknowledged(*WORLD, 2, SNAPSHOT),
    BarrierDeclined(*WORLD, 2, "IO_EXCEPTION", "disk full"),
    SourceAtEnd(*WORLD, "history", 4, droppable=False),
    SubtaskPaused(*WORLD, DropSource("history"), 4),
    SubtaskPaused(*WORLD, Reconfigure(2), 4),
    ReconfigurationPrepared(*WORLD, "3.2"),
    ReconfigurationPrepared(*WORLD, "3.2", {"v": "0a1b"}),
    ReconfigurationUnfit(*WORLD, "3.2", "it has other columns"),
    SplitsCompleted(*WORLD, ("2026-01",), 4),
    SplitsCompleted(*WORLD, ("2026-01", "2026-02"), 4, together=2),
    SplitsReturned(*WORLD, ("2026-03",), together=1),
    QueryMeasured(*WORLD, BatchProgress(7, 1.5, 1.0, 100, 3, 4096, 2, 50, 9000, 8)),
    QueryMeasured(*WORLD, None),
    BatchPublished(*WORLD),
    SourceLogGrown(*WORLD),
    SubtaskPaused(*WORLD, BeginAnew(), 4),
    AssignSplits(*WORLD, ("2026-02", "2026-03"), is_last=False),
    TriggerBarrier(*WORLD, 2),
    DeploySubtask(*WORLD, VertexPlan(0, ("history",))),
    PauseSubtask(*WORLD, DropSource("history")),
    PauseSubtask(*WORLD, Reconfigure(2)),
    PrepareReconfiguration(*WORLD, "3.2", VertexPlan(1, (), settings=SETTINGS)),
    ResumeSubtask(*WORLD, VertexPlan(1, ("history",))),
    DrainSubtask(*WORLD),
    FinishSubtask(*WORLD),
    RestartSubtask(*WORLD, 1.5, VertexPlan(1, ("history",))),
]


def test_every_report_and_command_is_tried() -> None:
    known = {*typing.get_args(TaskReport), *typing.get_args(Command)}
    assert {type(message) for message in MESSAGES} == known


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_comes_back_as_what_it_was(message: Any) -> None:
    read = from_json(json.loads(json.dumps(to_json(message))))
    assert read == message
    assert type(read.subtask) is SubtaskId


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_names_its_world(message: Any) -> None:
    body = to_json(message)
    assert (body["epoch"], body["subtask"], body["attempt"]) == (3, "v/0", "0003-02-ab")


@pytest.mark.parametrize(
    "body",
    [
        {"type": "Reboot", "epoch": 1},
        {},
        {**to_json(DrainSubtask(*WORLD)), "how": "gently"},
        {**to_json(DrainSubtask(*WORLD)), "attempt": "the second one"},
        {**to_json(DrainSubtask(*WORLD)), "attempt": None},
        {**to_json(PauseSubtask(*WORLD, DropSource("history"))), "reason": {"type": "Lunch"}},
        {**to_json(BarrierDeclined(*WORLD, 2, "IO_EXCEPTION")), "reason": "CHECKPOINT_DECLINED"},
    ],
)
def test_what_this_version_does_not_know_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UnknownMessageError, match="same version"):
        from_json(body)
