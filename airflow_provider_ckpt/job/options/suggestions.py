"""Hints for messages about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `` Did you mean 'live'?`` or an empty text. It begins with a blank, so that a template can append it.

    ``name`` is the given name, which may be no text. The message then reports that, so this function raises no error.
    """
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return a hint that a given name may mean ``name``, or an empty text. It begins with a blank."""
    close = difflib.get_close_matches(name, list(given), n=1)
    return f" Did you mean {name!r} where you gave {close[0]!r}?" if close else ""


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
