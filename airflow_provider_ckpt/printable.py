"""Conversion of text from users, data and other programs to a form that is safe to print.

A terminal obeys escape sequences. A log treats a line break as the start of a record. Half a surrogate pair cannot be
encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that make a terminal show text in another order."""
_NOT_LINES = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]")
_ALL = re.compile(f"[\0-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped as in a Python literal. Line breaks and tabs are not escaped."""
    return _NOT_LINES.sub(_escaped, text)


def one_line(text: str) -> str:
    """Return ``text`` with control characters, line breaks and tabs escaped."""
    return _ALL.sub(_escaped, text)


def instant_text(epoch_seconds: float) -> str:
    """Return the instant in UTC, to the second, so that each machine shows the same text."""
    return datetime.fromtimestamp(epoch_seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def without_colours(text: str) -> str:
    """Return a library's message without the escape sequences that colour a terminal."""
    return _COLOUR.sub("", text)


def each_text(value: Any, change: Callable[[str], str], *, keys: bool = True) -> Any:
    """Return a JSON value with ``change`` applied to each text in it. Keys stay unchanged if ``keys`` is False."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(name)) if keys else name: each_text(item, change, keys=keys) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [each_text(item, change, keys=keys) for item in value]
    return value


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
