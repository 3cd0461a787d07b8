"""Hook that freezes a server before a statement, and the time limit for the sink to give the server up."""

from __future__ import annotations

from collections.abc import Callable

IN_TIME = 30.0
"""Seconds. The tests set timeouts of one or two seconds; the default timeout is an hour."""


def once_before(at: str, freeze: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook for statements. It calls ``freeze`` before the first statement that starts with ``at``."""
    seen = list[str]()

    def about_to(statement: str) -> None:
        if statement.startswith(at) and not seen:
            seen.append(statement)
            freeze()

    return about_to
