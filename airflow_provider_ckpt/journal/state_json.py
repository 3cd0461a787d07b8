"""JobState as a document, kept in the StateSnapshot of a compaction and printed by ``ckpt show``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_ckpt.journal.codec import decode, encode
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.envelope import PREFIX, check_format
from airflow_provider_ckpt.storage.errors import MalformedDocumentError

_KIND = "job-state"
_VERSION = 1
_PLAIN = (
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
)
_ADDED = ("restored", "restored_epoch")
"""Came later in version 1: 0 in a file that does not have them."""
_EVENTS = ("triggered", "checkpoints", "releases")


def state_to_json(state: JobState) -> dict[str, Any]:
    """Readable, with format and version; what is wrong with the journal is not part of it."""
    return {
        "format": PREFIX + _KIND,
        "version": _VERSION,
        "job_id": state.job_id,
        **{name: getattr(state, name) for name in (*_PLAIN, *_ADDED)},
        "worker": dict(state.worker),
        "created": _event(state.created),
        "plan": _event(state.plan),
        "frozen": _events(state.frozen.values()),
        **{name: _events(getattr(state, name).values()) for name in _EVENTS},
        "aborted": {str(number): reason for number, reason in state.aborted.items()},
        "ended": {vertex: dict(uids) for vertex, uids in state.ended.items()},
        "dropped": {vertex: dict(uids) for vertex, uids in state.dropped.items()},
        "end_of_data": sorted(state.end_of_data),
        "finished": sorted(state.finished),
        "late_files": _events(state.late_files),
        "answered": sorted(state.answered),
        **({"outcomes": dict(state.outcomes)} if state.outcomes else {}),
        **({"anew_epoch": state.anew_epoch} if state.anew_epoch else {}),
        **({"given_up": sorted(state.given_up)} if state.given_up else {}),
        **({"introduced": {uid: [*at] for uid, at in state.introduced.items()}} if state.introduced else {}),
    }


def state_from_json(data: Mapping[str, Any]) -> JobState:
    """Raises MalformedDocumentError, NewerFormatError."""
    where = f"the state of job {data.get('job_id')!r}"
    check_format(dict(data), _KIND, _VERSION, uri=where)
    try:
        return _read(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedDocumentError(uri=where, what=_KIND, reason=f"{error!r}") from error


def _read(data: Mapping[str, Any]) -> JobState:
    values: dict[str, Any] = {name: data[name] for name in _PLAIN}
    values |= {name: data.get(name, 0) for name in _ADDED}
    for name in _EVENTS:
        values[name] = {event.checkpoint: event for event in map(_decoded, data[name])}
    return JobState(
        job_id=data["job_id"],
        worker=data["worker"],
        created=_decoded(data["created"]),
        plan=_decoded(data["plan"]),
        frozen={event.uid: event for event in map(_decoded, data["frozen"])},
        aborted={int(number): reason for number, reason in data["aborted"].items()},
        ended={vertex: dict(uids) for vertex, uids in data["ended"].items()},
        dropped={vertex: dict(uids) for vertex, uids in data["dropped"].items()},
        end_of_data=set(data["end_of_data"]),
        finished=set(data["finished"]),
        late_files=[_decoded(event) for event in data["late_files"]],
        answered=set(data["answered"]),
        outcomes=dict(data.get("outcomes", {})),  # came later in version 1
        anew_epoch=data.get("anew_epoch", 0),
        given_up=set(data.get("given_up", ())),
        introduced={uid: (epoch, last) for uid, (epoch, last) in data.get("introduced", {}).items()},
        **values,
    )


def _event(event: Event | None) -> Any:
    return None if event is None else json.loads(encode(event))


def _events(events: Iterable[Event]) -> list[Any]:
    return [_event(event) for event in events]


def _decoded(data: Any) -> Any:
    return None if data is None else decode(data)
