"""Reports and commands as readable JSON, and back: what a task and the JobMaster say to each other.

In one process nobody writes it: they are handed over as they are. The tests run whole jobs with each of them taken
through JSON, so that a gateway between processes has nothing to find out.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.reports import TaskReport
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.tagged import Tagged

_MESSAGES: Tagged[TaskReport | Command] = Tagged((*typing.get_args(TaskReport), *typing.get_args(Command)))


def to_json(message: TaskReport | Command) -> dict[str, Any]:
    """Each field by its name, beside the ``type``."""
    return _MESSAGES.to_json(message)


def from_json(body: Mapping[str, Any]) -> TaskReport | Command:
    """The report or command. Raises UnknownMessageError for a type, or for fields, that this version does not know."""
    try:
        return _MESSAGES.from_json(body)
    except UnknownFormError as error:
        fields = ", ".join(sorted(name for name in body if name != "type"))
        raise UnknownMessageError(kind=str(body.get("type")), fields=fields) from error
