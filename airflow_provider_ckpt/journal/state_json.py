"""The JSON document of a JobState, and the event by which a compaction journals it.

The document follows from the declarations of the state's parts, and the form of a value from its type
(``model.json_form``). An event in the state has the same form as in the journal. To add a field, declare it next to the
events that change it, and nowhere else.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from airflow_provider_ckpt.journal.kinds.event import LISTED_BY, JournalEvent
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, UNRECORDED, own_form, read_field, reader, shown, to_json
from airflow_provider_ckpt.model.limits import Instant
from airflow_provider_ckpt.model.tagged import Tagged
from airflow_provider_ckpt.storage.envelope import PREFIX, check_format
from airflow_provider_ckpt.storage.errors import MalformedDocumentError

_KIND = "job-state"
_VERSION = 1
_FIRST_KEYS = (
    *("job_id", "epoch", "attempt", "status", "cause", "last_triggered", "pending", "last_completed"),
    *("completed_count", "aborted_count", "last_released", "draining", "restored", "restored_epoch", "worker"),
    *("created", "plan", "frozen", "triggered", "checkpoints", "releases", "aborted", "ended", "dropped"),
    *("end_of_data", "finished", "late_files", "answered"),
)
"""The first keys of the document, most important first. The other keys follow in the order of their declaration."""


@dataclass(frozen=True)
class _Key:
    """A key of the document, for one field of the state."""

    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    omit_empty: bool
    """True if the document omits the field while it is empty."""


def state_to_json(state: JobState) -> dict[str, Any]:
    """Return the state as a JSON document with format and version. It omits UNRECORDED fields, such as ``damage``."""
    values = ((key, getattr(state, key.name)) for key in _KEYS)
    return {
        "format": PREFIX + _KIND,
        "version": _VERSION,
        **{key.name: key.write(value) for key, value in values if value or not key.omit_empty},
    }


def state_from_json(data: Mapping[str, Any]) -> JobState:
    """Return the state of a document.

    Raises MalformedDocumentError, NewerFormatError, and UnknownFormError for an unknown event or status.
    """
    if not isinstance(data, Mapping):
        raise MalformedDocumentError(uri="the state of a job", what=_KIND, reason=f"it is {shown(data)}")
    where = f"the state of job {shown(data.get('job_id'))}"
    check_format(dict(data), _KIND, _VERSION, uri=where)
    keys = [key for key in _KEYS if key.name in data or not key.omit_empty]
    try:
        return JobState(**{key.name: read_field(data, key.name, key.read) for key in keys})
    except DamagedFormError as error:
        raise MalformedDocumentError(uri=where, what=_KIND, reason=error.data["what"]) from error


def _keys() -> Iterator[_Key]:
    hints = typing.get_type_hints(JobState, include_extras=True)
    recorded_fields = [state_field for state_field in fields(JobState) if state_field.metadata != UNRECORDED]
    events: Tagged[JournalEvent] = Tagged(
        kind for state_field in recorded_fields if (kind := _remembered(hints[state_field.name]))
    )
    order = {name: place for place, name in enumerate(_FIRST_KEYS)}
    for state_field in sorted(recorded_fields, key=lambda state_field: order.get(state_field.name, len(order))):
        hint = hints[state_field.name]
        kind = _remembered(hint)
        write, read = (to_json, reader(hint)) if kind is None else _event_codec(state_field, hint, kind, events)
        yield _Key(state_field.name, write, read, state_field.metadata == OMIT_EMPTY)


def _remembered(hint: Any) -> type[JournalEvent] | None:
    kinds = (hint, *typing.get_args(hint))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, JournalEvent)), None)


def _event_codec(
    state_field: Field[Any], hint: Any, kind: type[JournalEvent], events: Tagged[JournalEvent]
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the writer and the reader of a field with events.

    The value of the field is an event or None, a list of events, or a dict of events by one of their fields. The
    document has a list for such a dict.
    """

    def event(data: Any) -> JournalEvent:
        decoded = events.from_json(data)
        if not isinstance(decoded, kind):
            raise DamagedFormError(what=f"an event of type {data['type']!r}")
        return decoded

    def event_list(data: Any) -> list[JournalEvent]:
        return [event(item) for item in reader(list[Any])(data)]

    origin = typing.get_origin(hint)
    if origin is dict:
        name = state_field.metadata[LISTED_BY]
        return (
            lambda value: [events.to_json(item) for item in value.values()],
            lambda data: {getattr(item, name): item for item in event_list(data)},
        )
    if origin is list:
        return lambda value: [events.to_json(item) for item in value], event_list
    return (
        lambda value: None if value is None else events.to_json(value),
        lambda data: None if data is None else event(data),
    )


_KEYS = tuple(_keys())


@dataclass(frozen=True)
class StateSnapshot(JournalEvent):
    """The state of the job after all earlier events. A compaction writes it as the only event of the head entry."""

    state: JobState = field(metadata=own_form(state_to_json, state_from_json))
    at: Instant

    def apply(self, state: JobState) -> None:
        """Replace the content of ``state``, except ``damage``. Call this one time, because ``state`` then shares all
        values with this event."""
        damage = state.damage
        state.__dict__.update(self.state.__dict__)
        state.damage = damage
