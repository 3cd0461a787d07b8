"""What a trigger of SQLite may do to the rows of an INSERT, read off its text: the catalog has nothing else."""

from __future__ import annotations

import re

_NO_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""", re.DOTALL
)
"""Comments, texts, and names in quotes."""
_EVENT = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
"""No name is one of these without quotes."""
_IGNORE = re.compile(r"\bRAISE\s*\(\s*IGNORE\b", re.IGNORECASE)


def leaves_rows_out(trigger: str) -> bool:
    """Whether it may pass over a row that is inserted. One of an UPDATE chooses between the row that is there and the
    one that comes, and loses none."""
    words = _NO_WORDS.sub(" ", trigger)
    event = _EVENT.search(words)
    return event is not None and event[0].upper() == "INSERT" and _IGNORE.search(words) is not None
