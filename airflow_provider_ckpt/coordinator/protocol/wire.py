"""The JSON form of reports and commands, which a task and the JobMaster exchange across processes."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.tagged import Tagged

_MESSAGES: Tagged[TaskReport | Command] = Tagged((*typing.get_args(TaskReport), *typing.get_args(Command)))


def to_json(message: TaskReport | Command) -> dict[str, Any]:
    """Return the fields of the message by name, together with its ``type``."""
    return _MESSAGES.to_json(message)


def from_json(body: Mapping[str, Any]) -> TaskReport | Command:
    """Return the report or command.

    Raises UnknownMessageError for a type or fields that this version does not know.
    """
    try:
        return _MESSAGES.from_json(body)
    except UnknownFormError as error:
        fields = ", ".join(sorted(name for name in body if name != "type"))
        raise UnknownMessageError(kind=str(body.get("type")), fields=fields) from error
