"""Reports and commands as readable JSON, and back: what a task and the JobMaster say to each other."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.messages import BarrierAcknowledged, Command, Report, SubtaskFenced
from airflow_provider_ckpt.partitions.codec import snapshot_from_json, snapshot_to_json

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*typing.get_args(Report), *typing.get_args(Command), SubtaskFenced)
}


def to_json(message: Report | Command | SubtaskFenced) -> dict[str, Any]:
    """Each field by its name, beside the ``type``."""
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    if isinstance(message, BarrierAcknowledged):
        fields["snapshot"] = snapshot_to_json(message.snapshot)
    return {"type": type(message).__name__, **fields}


def from_json(body: Mapping[str, Any]) -> Any:
    """The report or command. Raises UnknownMessageError for a type, or for fields, that this version does not know."""
    fields = {name: value for name, value in body.items() if name != "type"}
    kind = _KINDS.get(str(body.get("type")))
    if kind is None or not fields.keys() <= {field.name for field in dataclasses.fields(kind)}:
        raise UnknownMessageError(kind=str(body.get("type")), fields=", ".join(sorted(fields)))
    if kind is BarrierAcknowledged:
        fields["snapshot"] = snapshot_from_json(fields["snapshot"])
    return kind(**fields)
