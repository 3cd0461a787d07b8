"""Wait for something that another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    look: Callable[[], T], what: str | Callable[[], str], *, seconds: float = 120.0, every: float = 0.05
) -> T:
    """The first true value of ``look``. Raises AssertionError that says ``what`` did not come; the deadline
    is generous, so that it tells a hang and not a slow machine."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(every)
    return found
