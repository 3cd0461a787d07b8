"""Hook that freezes a server before a statement, and the releases after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle

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


def try_release(sink: BoundSink, handle: Handle) -> bool:
    """Try to release two rows once. Transactions that were open when the server froze may hold their locks."""
    with suppress(SinkUnavailableError):
        return sink.release([handle], 1) == {"rows": 2}
    return False
