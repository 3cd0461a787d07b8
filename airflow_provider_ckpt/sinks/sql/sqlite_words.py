"""The effects of a SQLite table and its triggers on inserted rows, read from their source texts.

The catalog has no other description of them.
"""

from __future__ import annotations

import re

_NO_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""", re.DOTALL
)
"""Comments, strings and quoted names."""
_EVENT = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
"""An unquoted name cannot be one of these words."""
_IGNORE = re.compile(r"\bRAISE\s*\(\s*IGNORE\b", re.IGNORECASE)
_PASSES_OVER = re.compile(r"\bON\s+CONFLICT\s+(?:IGNORE|REPLACE)\b", re.IGNORECASE)


def passes_over_conflicts(table: str) -> bool:
    """Return whether a constraint of a CREATE TABLE skips a conflicting row or replaces the existing one."""
    return _PASSES_OVER.search(_NO_WORDS.sub(" ", table)) is not None


def leaves_rows_out(trigger: str) -> bool:
    """Return whether the trigger may skip a row that is inserted.

    A trigger of an UPDATE may keep the existing row instead of the new one, which loses no row.
    """
    words = _NO_WORDS.sub(" ", trigger)
    event = _EVENT.search(words)
    return event is not None and event[0].upper() == "INSERT" and _IGNORE.search(words) is not None
