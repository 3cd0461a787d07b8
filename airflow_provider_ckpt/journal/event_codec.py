"""The JSON form of events: one object ``{"type": "SubtaskFinished", "subtask": …}`` for each event."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, get_args

from airflow_provider_ckpt.journal.errors import UnknownEventError
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader, shown
from airflow_provider_ckpt.model.tagged import Tagged
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError

_EVENTS: Tagged[Event] = Tagged(get_args(Event))
_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False)


def encode(event: Event) -> str:
    """Return the event as JSON text.

    Raises ValueError for a number that JSON does not have (NaN, infinity).
    """
    return _ENCODER.encode(_EVENTS.to_json(event))


def decode(data: Mapping[str, Any], written_by: str = "unknown") -> Event:
    """Return the event of parsed JSON. ``written_by`` is the library version that wrote it, for error messages.

    Raises UnknownEventError for a type, a field or a value of a newer library version, and DamagedFormError for data
    that no version has written.
    """
    try:
        return _EVENTS.from_json(data)
    except MalformedDocumentError as error:
        raise DamagedFormError(what=str(error)) from None
    except UnknownFormError as error:
        problem = error.data["what"]
        kind = data.get("type") if isinstance(data, Mapping) else None
        if isinstance(kind, str) and _EVENTS.knows(kind) and not problem.startswith(kind):
            problem = f"{kind}: {problem}"
        if isinstance(error, DamagedFormError):
            raise DamagedFormError(what=problem) from None
        raise _unknown(problem, written_by) from None
    except NewerFormatError as error:
        problem = f"{data['type']}: {error.data['uri']} is of version {error.data['found']}"
        raise _unknown(problem, written_by) from None


def _unknown(problem: str, written_by: str) -> UnknownEventError:
    return UnknownEventError(where="the journal", what=problem, written_by=written_by, release=release())


def decode_all(body: Any) -> list[Event]:
    """Return the events of a journal entry from its parsed JSON ``body``.

    Raises the errors of :func:`decode`.
    """
    if not isinstance(body, Mapping):
        raise DamagedFormError(what=f"its body is {shown(body)}")
    written_by = str(body.get("release", "unknown"))
    return [decode(data, written_by) for data in read_field(body, "events", reader(list[Any]))]


def release() -> str:
    """Return the version of this library, which each journal entry records; "unknown" if the package has none."""
    return str(getattr(sys.modules.get("airflow_provider_ckpt"), "__version__", "unknown"))
