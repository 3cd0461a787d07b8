"""Events as JSON: ``{"type": "SubtaskFinished", "subtask": …}``, one object for each event."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args

from airflow_provider_ckpt.journal.errors import UnknownEventError
from airflow_provider_ckpt.journal.events import Event, LateFilesFound

_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}
_KNOWN = {name: {field.name for field in fields(kind)} for name, kind in _TYPES.items()}
_NEEDED = {
    name: {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    for name, kind in _TYPES.items()
}
_LATER = {"PlanRecorded": ("definition",), "Restored": ("anew",)}


def encode(event: Event) -> str:
    """The event as JSON text. A field that came later in version 1 is left out while it is empty, so that what knows
    nothing of it is written as it always was."""
    name = type(event).__name__
    later = _LATER.get(name, ())
    values = {field: value for field, value in event.__dict__.items() if value or field not in later}
    return _ENCODER.encode({"type": name, **values})


def decode(data: Mapping[str, Any], written_by: str = "unknown") -> Event:
    """The event of parsed JSON. ``written_by``: the release that wrote it.

    Raises UnknownEventError for a type or a field of a later release.
    """
    values = dict(data)
    name = values.pop("type", None)
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise _unknown(f"of type {name!r}", written_by)
    if kind is LateFilesFound and "paths" in values:
        values["paths"] = tuple(values["paths"])
    try:
        event: Event = kind(**values)
    except TypeError:
        more = sorted(values.keys() - _KNOWN[kind.__name__])
        missing = sorted(_NEEDED[kind.__name__] - values.keys())
        what = f"{kind.__name__} with the unknown fields {more} and without {missing}"
        raise _unknown(what, written_by) from None
    return event


def release() -> str:
    """The release of this library, written beside the events."""
    return str(getattr(sys.modules.get("airflow_provider_ckpt"), "__version__", "unknown"))


def _unknown(what: str, written_by: str) -> UnknownEventError:
    return UnknownEventError(what=what, written_by=written_by, release=release())


def _plain(value: object) -> Any:
    """Mappings that are no dict (a mapping proxy, say)."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, default=_plain)
