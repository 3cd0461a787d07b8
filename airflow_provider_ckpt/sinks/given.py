"""What a user may have said of a sink in a form that only the driver would stumble over. Pure functions, no I/O."""

from __future__ import annotations

from collections.abc import Mapping


def names_problem(given: object) -> str | None:
    """Of names of columns. They are read more than once, and in one order: an iterator would be empty the second time,
    and a set has none. None: nothing is wrong with the form."""
    if isinstance(given, str):
        return "is a string; give a list of column names"
    return None if isinstance(given, (list, tuple)) else "is no list of column names"


def options_problem(given: object) -> str | None:
    """Of options by name. What it says shows no value: one may be a secret."""
    if not isinstance(given, Mapping):
        return f"is given as an object of type {type(given).__name__}; give a dict of options by name"
    for name, value in given.items():
        if not isinstance(name, str):
            return f"holds {name!r}, which is no name of an option: names are texts"
        if not isinstance(value, (str, bool, int, float)):
            return f"has for {name!r} what is no text, number or flag"
    return None
