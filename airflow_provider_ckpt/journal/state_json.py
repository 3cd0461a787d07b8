"""JobState as a document, kept in the StateSnapshot of a compaction."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointCompleted, CheckpointReleased, CheckpointTriggered
from airflow_provider_ckpt.journal.kinds.epochs import PlanRecorded
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.job import JobCreated
from airflow_provider_ckpt.journal.kinds.sources import LateFilesFound, SourceFrozen
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import LATER, read_field, reader, to_json
from airflow_provider_ckpt.model.tagged import Tagged
from airflow_provider_ckpt.storage.envelope import PREFIX, check_format
from airflow_provider_ckpt.storage.errors import MalformedDocumentError

_KIND = "job-state"
_VERSION = 1
_ORDER = (
    "epoch",
    "attempt",
    "status",
    "cause",
    "last_triggered",
    "pending",
    "last_completed",
    "completed_count",
    "aborted_count",
    "last_released",
    "draining",
    "restored",
    "restored_epoch",
    "worker",
    "created",
    "plan",
    "frozen",
    "triggered",
    "checkpoints",
    "releases",
    "aborted",
    "ended",
    "dropped",
    "end_of_data",
    "finished",
    "late_files",
    "answered",
    "outcomes",
    "anew_epoch",
    "given_up",
    "introduced",
    "splits_assigned",
    "splits_done",
    "splits_covered",
    "restarts",
)
"""In which the keys are written; every field of the state but ``damage``."""
_ADDED = frozenset({"restored", "restored_epoch"})
"""Came later in version 1, and are always written."""
_LATER = frozenset(field.name for field in fields(JobState) if field.metadata == LATER)
_EVENTS: Mapping[str, type[JournalEvent]] = {
    "created": JobCreated,
    "plan": PlanRecorded,
    "frozen": SourceFrozen,
    "triggered": CheckpointTriggered,
    "checkpoints": CheckpointCompleted,
    "releases": CheckpointReleased,
    "late_files": LateFilesFound,
}
_KEYS = {"frozen": "uid", "triggered": "checkpoint", "checkpoints": "checkpoint", "releases": "checkpoint"}
"""What is a list of events in the document, and goes by one of their fields in the state."""
_HINTS = typing.get_type_hints(JobState)
_REMEMBERED: Tagged[JournalEvent] = Tagged(_EVENTS.values())


def state_to_json(state: JobState) -> dict[str, Any]:
    """Readable, with format and version; what is wrong with the journal is not part of it."""
    values = {name: getattr(state, name) for name in _ORDER}
    return {
        "format": PREFIX + _KIND,
        "version": _VERSION,
        "job_id": state.job_id,
        **{name: _write(name, value) for name, value in values.items() if value or name not in _LATER},
    }


def state_from_json(data: Mapping[str, Any]) -> JobState:
    """Raises MalformedDocumentError, NewerFormatError, UnknownFormError (of an event in it, or a status)."""
    if not isinstance(data, Mapping):
        raise MalformedDocumentError(uri="the state of a job", what=_KIND, reason=f"it is {data!r}")
    where = f"the state of job {data.get('job_id')!r}"
    check_format(dict(data), _KIND, _VERSION, uri=where)
    names = [name for name in _ORDER if name in data or name not in _LATER | _ADDED]
    try:
        job_id = read_field(data, "job_id", reader(str))
        return JobState(job_id, **{name: read_field(data, name, partial(_read, name)) for name in names})
    except DamagedFormError as error:
        raise MalformedDocumentError(uri=where, what=_KIND, reason=error.data["what"]) from error


def _write(name: str, value: Any) -> Any:
    if name in _KEYS:
        return [_REMEMBERED.to_json(event) for event in value.values()]
    if name == "late_files":
        return [_REMEMBERED.to_json(event) for event in value]
    return _REMEMBERED.to_json(value) if isinstance(value, JournalEvent) else to_json(value)


def _read(name: str, data: Any) -> Any:
    if name in ("created", "plan"):
        return None if data is None else _event(name, data)
    if name in _KEYS or name == "late_files":
        events = [_event(name, one) for one in reader(list[Any])(data)]
        return {getattr(event, _KEYS[name]): event for event in events} if name in _KEYS else events
    return reader(_HINTS[name])(data)


def _event(name: str, data: Any) -> JournalEvent:
    event = _REMEMBERED.from_json(data)
    if not isinstance(event, _EVENTS[name]):
        raise DamagedFormError(what=f"an event of type {data['type']!r}")
    return event
