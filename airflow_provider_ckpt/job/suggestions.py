"""The hint of a message about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`` Did you mean 'live'?`` or nothing; starts with a blank so that a template can append it. ``name``: as it was
    given, and so perhaps no text: the message is about it, and not an error of its own."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return a hint that a given name is meant to be ``name``, or nothing. It starts with a blank."""
    close = difflib.get_close_matches(name, list(given), n=1)
    return f" Did you mean {name!r} where you gave {close[0]!r}?" if close else ""


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
