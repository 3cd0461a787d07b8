"""Reports and commands as readable JSON, and back: what a task and the JobMaster say to each other."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.reports import Report, SubtaskFenced
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.tagged import Tagged

_MESSAGES: Tagged[Any] = Tagged((*typing.get_args(Report), *typing.get_args(Command), SubtaskFenced))


def to_json(message: Report | Command | SubtaskFenced) -> dict[str, Any]:
    """Each field by its name, beside the ``type``."""
    return _MESSAGES.to_json(message)


def from_json(body: Mapping[str, Any]) -> Any:
    """The report or command. Raises UnknownMessageError for a type, or for fields, that this version does not know."""
    try:
        return _MESSAGES.from_json(body)
    except UnknownFormError as error:
        fields = ", ".join(sorted(name for name in body if name != "type"))
        raise UnknownMessageError(kind=str(body.get("type")), fields=fields) from error
