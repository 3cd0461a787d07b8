"""What a table of SQLite and its triggers do to the rows of an INSERT, read off their texts: the catalog has nothing
else."""

from __future__ import annotations

import re

_NO_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""", re.DOTALL
)
"""Comments, texts, and names in quotes."""
_EVENT = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
"""No name is one of these without quotes."""
_IGNORE = re.compile(r"\bRAISE\s*\(\s*IGNORE\b", re.IGNORECASE)
_PASSES_OVER = re.compile(r"\bON\s+CONFLICT\s+(?:IGNORE|REPLACE)\b", re.IGNORECASE)


def passes_over_conflicts(table: str) -> bool:
    """Whether a constraint leaves out what meets it, or puts it in its place. ``table``: its CREATE."""
    return _PASSES_OVER.search(_NO_WORDS.sub(" ", table)) is not None


def leaves_rows_out(trigger: str) -> bool:
    """Whether it may pass over a row that is inserted. One of an UPDATE chooses between the row that is there and the
    one that comes, and loses none."""
    words = _NO_WORDS.sub(" ", trigger)
    event = _EVENT.search(words)
    return event is not None and event[0].upper() == "INSERT" and _IGNORE.search(words) is not None
