"""JobState as a document, kept in the StateSnapshot of a compaction."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointCompleted, CheckpointReleased, CheckpointTriggered
from airflow_provider_ckpt.journal.kinds.epochs import PlanRecorded
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.job import JobCreated
from airflow_provider_ckpt.journal.kinds.sources import LateFilesFound, SourceFrozen
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.json_form import LATER, reader, to_json
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
)
"""In which the keys are written; every field of the state but ``damage``."""
_ADDED = frozenset({"restored", "restored_epoch"})
"""Came later in version 1, and are always written."""
_LATER = frozenset(field.name for field in fields(JobState) if field.metadata == LATER)
_KEYS = {"frozen": "uid", "triggered": "checkpoint", "checkpoints": "checkpoint", "releases": "checkpoint"}
"""What is a list of events in the document, and goes by one of their fields in the state."""
_HINTS = typing.get_type_hints(JobState)
_REMEMBERED: Tagged[JournalEvent] = Tagged(
    (
        JobCreated,
        PlanRecorded,
        SourceFrozen,
        CheckpointTriggered,
        CheckpointCompleted,
        CheckpointReleased,
        LateFilesFound,
    )
)


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
    where = f"the state of job {data.get('job_id')!r}"
    check_format(dict(data), _KIND, _VERSION, uri=where)
    names = [name for name in _ORDER if name in data or name not in _LATER | _ADDED]
    try:
        return JobState(data["job_id"], **{name: _read(name, data[name]) for name in names})
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedDocumentError(uri=where, what=_KIND, reason=f"{error!r}") from error


def _write(name: str, value: Any) -> Any:
    if name in _KEYS:
        return [_REMEMBERED.to_json(event) for event in value.values()]
    if name == "late_files":
        return [_REMEMBERED.to_json(event) for event in value]
    return _REMEMBERED.to_json(value) if isinstance(value, JournalEvent) else to_json(value)


def _read(name: str, data: Any) -> Any:
    if name in ("created", "plan"):
        return None if data is None else _REMEMBERED.from_json(data)
    if name in _KEYS or name == "late_files":
        events = [_REMEMBERED.from_json(one) for one in data]
        return {getattr(event, _KEYS[name]): event for event in events} if name in _KEYS else events
    return reader(_HINTS[name])(data)
