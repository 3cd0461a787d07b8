"""Waiting for another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    look: Callable[[], T], what: str | Callable[[], str], *, seconds: float = 120.0, every: float = 0.05
) -> T:
    """Return the first true value of ``look``, or raise AssertionError with ``what`` after the deadline.

    The deadline is generous, so that it detects a hang and not a slow machine.
    """
    deadline = time.monotonic() + seconds
    while not (result := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(every)
    return result
