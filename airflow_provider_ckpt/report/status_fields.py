"""The types of the data of status lines. A reader accepts a line only if each known field has its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_LARGEST = 2**63


def wrong_field(data: Mapping[str, Any]) -> str | None:
    """Return the field that has a value of another type, as "checkpoint (str)". Return None if there is none."""
    for name, fits in _FIELDS.items():
        if name in data and data[name] is not None and not fits(data[name]):
            return f"{name} ({type(data[name]).__name__})"
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value.values()))


_TEXTS = ("message", "job_id", "application_id", "status", "spark_ui", "traceback", "traces", "driver_before")
_COUNTS = ("epoch", "checkpoint", "released", "late_rows", "changed_files", "unfit_rows", "malformed_rows")
_SWITCHES = ("quiet", "no_master", "run_over", "terminal")
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(_COUNTS, _is_count),
    **dict.fromkeys(_SWITCHES, _is_switch),
    "finished_operators": _are_texts,
    "recovery": _are_texts,
    "outputs": _are_texts_by_name,
}
