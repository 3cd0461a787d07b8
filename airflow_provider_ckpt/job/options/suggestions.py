"""Hints for messages about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from airflow_provider_ckpt.job.errors import BadOptionError


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint such as `` Did you mean 'live'?``, or an empty text. A hint begins with a blank, for templates.

    ``name`` may be of any type. The caller's message reports a wrong type, so this function raises no error.
    """
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return a hint that the user gave a misspelt ``name``, or an empty text. A hint begins with a blank."""
    close = difflib.get_close_matches(name, list(given), n=1)
    return f" Did you mean {name!r} where you gave {close[0]!r}?" if close else ""


def unknown_option(where: str, option: object, known: Iterable[str]) -> BadOptionError:
    """Return the error for a name that is none of the options of ``where``."""
    return BadOptionError(
        "{where} has no option {option!r}.{suggestion} It has: {known}.",
        where=where,
        option=option,
        suggestion=did_you_mean(option, known),
        known=listed(known),
    )


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
