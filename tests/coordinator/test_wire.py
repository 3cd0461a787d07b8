"""JSON form of reports and commands, because tasks need not run in the JobMaster's process."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.protocol.commands import (
    Command,
    DrainSubtask,
    PauseSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierDeclined,
    TaskReport,
)
from airflow_provider_ckpt.coordinator.protocol.wire import from_json, to_json
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from tests.coordinator.sample_messages import MESSAGES, WORLD


def test_every_report_and_command_has_a_sample() -> None:
    declared = {*typing.get_args(TaskReport), *typing.get_args(Command)}
    assert {type(message) for message in MESSAGES} == declared


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_survives_its_json(message: Any) -> None:
    read = from_json(json.loads(json.dumps(to_json(message))))
    assert read == message
    assert type(read.subtask) is SubtaskId


@pytest.mark.parametrize("message", MESSAGES, ids=[type(message).__name__ for message in MESSAGES])
def test_a_message_names_its_epoch_subtask_and_attempt(message: Any) -> None:
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
def test_a_message_that_this_version_does_not_know_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UnknownMessageError, match="same version"):
        from_json(body)
