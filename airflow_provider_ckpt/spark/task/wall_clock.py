"""Detection of a machine's clock that was set back, because Spark's triggers use that clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class WallClock:
    """A watch for a clock that was set back.

    Spark's trigger waits by this clock for the next interval. So no micro-batch would begin for the time by which the
    clock was set back, and nothing would report that.
    """

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall or (lambda: time.time()), steady
        self._ahead = self._now()

    def set_back(self) -> float:
        """Return by how many seconds the clock was set back since the last call; negative if it was set forward."""
        before, self._ahead = self._ahead, self._now()
        return before - self._ahead

    def _now(self) -> float:
        return self._wall() - self._steady()
