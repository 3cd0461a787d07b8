"""Reports and commands survive JSON: tasks need not be in the process of the JobMaster."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator import messages as m
from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.wire import from_json, to_json
from airflow_provider_ckpt.model.snapshot import Snapshot

WORLD = (3, "v/0", "0003-ab")
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
MESSAGES: list[Any] = [
    m.SubtaskRunning(*WORLD),
    m.SubtaskAtEndOfData(*WORLD, mode="drain"),
    m.SubtaskDone(*WORLD),
    m.SubtaskFailed(*WORLD, "ValueError: no", terminal=True, error="ValueError: no", traceback="Traceback"),
    m.SubtaskFenced(*WORLD, "taken over"),
    m.BarrierAcknowledged(*WORLD, 2, SNAPSHOT),
    m.BarrierDeclined(*WORLD, 2, "IO_EXCEPTION", "disk full"),
    m.SourceAtEnd(*WORLD, "history", 4, droppable=False),
    m.SubtaskPaused(*WORLD, m.DropSource("history"), 4),
    m.TriggerBarrier(*WORLD, 2),
    m.DeploySubtask(*WORLD),
    m.PauseSubtask(*WORLD, m.DropSource("history")),
    m.ResumeSubtask(*WORLD, m.VertexPlan(1, ("history",))),
    m.DrainSubtask(*WORLD),
    m.FinishSubtask(3, "v/0", None),
]


def test_every_report_and_command_is_tried() -> None:
    known = {*typing.get_args(m.Report), *typing.get_args(m.Command), m.SubtaskFenced}
    assert {type(message) for message in MESSAGES} == known


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_comes_back_as_what_it_was(message: Any) -> None:
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_names_its_world(message: Any) -> None:
    body = to_json(message)
    assert (body["epoch"], body["subtask"]) == (3, "v/0")
    assert "attempt" in body


@pytest.mark.parametrize(
    "body",
    [
        {"type": "Reboot", "epoch": 1},
        {},
        {**to_json(m.DrainSubtask(*WORLD)), "how": "gently"},
        {**to_json(m.PauseSubtask(*WORLD, m.DropSource("history"))), "reason": {"type": "Lunch"}},
    ],
)
def test_what_this_version_does_not_know_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UnknownMessageError, match="same version"):
        from_json(body)
