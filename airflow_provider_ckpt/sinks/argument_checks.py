"""Checks of the form of users' arguments, which would otherwise fail only in the driver. No I/O."""

from __future__ import annotations

from collections.abc import Mapping


def names_problem(given: object) -> str | None:
    """Return what is wrong with the form of a list of column names; None if it is right.

    An iterator is refused because the names are read several times. A set is refused because it has no order.
    """
    if isinstance(given, str):
        return "is a string; give a list of column names"
    return None if isinstance(given, (list, tuple)) else "is no list of column names"


def options_problem(given: object) -> str | None:
    """Return what is wrong with the form of a dict of options; None if it is right. The text shows no secret values."""
    if not isinstance(given, Mapping):
        return f"is given as an object of type {type(given).__name__}; give a dict of options by name"
    for name, value in given.items():
        if not isinstance(name, str):
            return f"holds {name!r}, which is no name of an option: names are texts"
        if not isinstance(value, (str, bool, int, float)):
            return f"has a value for {name!r} that is not a text, number or flag"
    return None
