"""The machine's clock, where Spark goes by it."""

from __future__ import annotations

import time
from collections.abc import Callable


class WallClock:
    """Notices that somebody has set it back. Spark's trigger waits on it for the next interval: for as long as it was
    set back no micro-batch would begin, and nothing would tell."""

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall or (lambda: time.time()), steady
        self._ahead = self._now()

    def set_back(self) -> float:
        """By how many seconds, since this was asked last; less than 0 if it was set forward."""
        before, self._ahead = self._ahead, self._now()
        return before - self._ahead

    def _now(self) -> float:
        return self._wall() - self._steady()
