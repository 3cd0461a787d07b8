"""The driver's clock. Intervals and deadlines must not change when the machine's clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """A clock in epoch seconds that never goes back.

    :meth:`now` is the wall time at construction plus the seconds that have really passed since. :meth:`wall` is the
    machine's current time, for comparison with times that users set.
    """

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic) -> None:
        """Start the clock.

        Args:
            wall: Function that returns epoch seconds; default ``time.time``.
            steady: Function that returns seconds and never goes back.
        """
        self.wall = time.time if wall is None else wall
        self._steady = steady
        self._offset = self.wall() - steady()

    def now(self) -> float:
        return self._offset + self._steady()

    def to_wall(self, at: float) -> float:
        """Convert a time of :meth:`now` to the machine's current wall clock, which may have been set meanwhile."""
        return at + self.wall() - self.now()
