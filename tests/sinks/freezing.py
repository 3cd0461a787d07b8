"""When a server freezes in a test of a database sink, and how soon it is to be given up."""

from __future__ import annotations

from collections.abc import Callable

IN_TIME = 30.0
"""Seconds. The limits in the tests are of one or two, and an hour if nothing is said."""


def once_before(at: str, freeze: Callable[[], object]) -> Callable[[str], None]:
    """Called with each statement that is about to be sent: calls ``freeze`` before the first that begins so."""
    seen = list[str]()

    def about_to(statement: str) -> None:
        if statement.startswith(at) and not seen:
            seen.append(statement)
            freeze()

    return about_to
